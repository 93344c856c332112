//! Against stores that others have written: moto for S3, Azurite for Azure.

use std::time::Duration;

use warpio_core::testing::read_contract;
use warpio_core::{AsyncDeviceWrite, ErrorKind};
use warpio_remote::{Azure, Bucket, RemoteContext, RemoteSettings, S3};
use warpio_tests::servers::azurite::Azurite;
use warpio_tests::servers::moto::Moto;

use crate::support::{gpu, host, pattern, read_all};

/// Real servers, on a machine that may be busy.
fn patient(settings: &mut RemoteSettings) {
    settings.stall_timeout = Duration::from_secs(60);
    settings.write_part_size = Some(5 << 20);
}

const LEN: usize = 1_000_003;

/// Every sign that one library or another takes for something else.
const KEYS: [&str; 12] = [
    "plain",
    "with space",
    "a=b",
    "a+b",
    "100%",
    "a%20b",
    "hash#mark",
    "what?",
    "UPPER/lower",
    "Ünïcode/日本",
    "double//slash",
    "~tilde*(x)!'",
];

async fn write(bucket: &Bucket, key: &str, bytes: &[u8]) -> warpio_core::Result<()> {
    let sink = bucket.create(key)?;
    if !bytes.is_empty() {
        let data = bucket_device(bucket).upload(bytes).await?.freeze();
        sink.write_at(0, data).await?;
    }
    sink.finish().await
}

fn bucket_device(_: &Bucket) -> warpio_core::Device {
    warpio_core::Device::host()
}

/// Everything that a store has to do.
async fn exercise(context: &RemoteContext, bucket: &Bucket, keys: &[&str]) {
    // In three parts, and read back by the contract of all sources.
    for len in [0, 1, LEN, 11 << 20] {
        write(bucket, "object", &pattern(len)).await.unwrap();
        let source = bucket.open("object").await.unwrap();
        assert!(read_all(&source).await.unwrap() == pattern(len), "{len} bytes");
    }
    write(bucket, "contract", &pattern(LEN)).await.unwrap();
    read_contract(&bucket.open("contract").await.unwrap(), LEN).await;

    for key in keys {
        write(bucket, key, key.as_bytes()).await.unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    for key in keys {
        let source = bucket.open(key).await.unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(read_all(&source).await.unwrap(), key.as_bytes(), "{key}");
        let entry = bucket.stat(key).await.unwrap();
        assert_eq!((entry.key.as_str(), entry.size), (*key, key.len() as u64));
        bucket.delete(key).await.unwrap();
        assert_eq!(bucket.open(key).await.unwrap_err().kind(), ErrorKind::NotFound, "{key}");
    }

    let mut names: Vec<String> = (0..1100).map(|n| format!("list/{}/{n:04}", n % 3)).collect();
    for names in names.chunks(50) {
        futures::future::try_join_all(names.iter().map(|name| write(bucket, name, b"x"))).await.unwrap();
    }
    names.sort();
    let mut listing = bucket.list("list").unwrap();
    let mut listed = Vec::new();
    while let Some(entry) = listing.try_next().await.unwrap() {
        assert_eq!(entry.size, 1);
        listed.push(entry.key);
    }
    listed.sort();
    assert_eq!(listed, names);

    let new = |bytes: Vec<u8>| async move {
        let sink = bucket.create_new("new").unwrap();
        let data = context.device().upload(&bytes).await.unwrap().freeze();
        sink.write_at(0, data).await.unwrap();
        sink.finish().await
    };
    new(vec![1; 10]).await.unwrap();
    assert_eq!(new(vec![2; 10]).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(read_all(&bucket.open("new").await.unwrap()).await.unwrap(), [1; 10]);

    // Dropped before it is finished: the old one stays.
    let sink = bucket.create("new").unwrap();
    let data = context.device().upload(&pattern(6 << 20)).await.unwrap().freeze();
    sink.write_at(0, data).await.unwrap();
    drop(sink);
    assert_eq!(read_all(&bucket.open("new").await.unwrap()).await.unwrap(), [1; 10]);
}

fn moto(moto: &Moto) -> warpio_remote::S3Builder {
    S3::builder().endpoint(moto.endpoint()).credentials("an-id", "a-secret").session_token("a-token")
}

/// Puts what is none of warpio's tasks: a bucket, or an object that everybody may read.
async fn put(moto: &Moto, path: &str, body: &str) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let address = moto.endpoint().trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let acl = if body.is_empty() { "" } else { "X-Amz-Acl: public-read\r\n" };
    let request =
        format!("PUT {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n{acl}\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(reply.split(' ').nth(1) == Some("200"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_by_moto() {
    let Some(server) = Moto::start() else { return };
    put(&server, "/bucket", "").await;
    put(&server, "/bucket/public", "x").await;
    let context = gpu(patient);
    exercise(&context, &moto(&server).bucket(&context, "bucket").unwrap(), &KEYS).await;

    let context = host(patient);
    let anonymous = S3::builder().endpoint(server.endpoint()).anonymous().bucket(&context, "bucket").unwrap();
    assert_eq!(read_all(&anonymous.open("public").await.unwrap()).await.unwrap(), b"x");
    assert_eq!(anonymous.open("new").await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    let checked = moto(&server).checksums().bucket(&context, "bucket").unwrap();
    write(&checked, "checked", &pattern(12 << 20)).await.unwrap();
    assert!(read_all(&checked.open("checked").await.unwrap()).await.unwrap() == pattern(12 << 20));
    let missing = moto(&server).bucket(&context, "no-such-bucket").unwrap();
    assert_eq!(missing.open("x").await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_by_azurite() {
    let Some(azurite) = Azurite::start() else { return };
    make_container(&azurite, "container").await;
    let context = gpu(patient);
    let azure = Azure::builder().endpoint(azurite.endpoint()).account(Azurite::ACCOUNT).access_key(Azurite::KEY);
    exercise(&context, &azure.bucket(&context, "container").unwrap(), &KEYS).await;
    let missing = azure.bucket(&context, "no-such-container").unwrap();
    assert_eq!(missing.open("x").await.unwrap_err().kind(), ErrorKind::NotFound);
    let wrong = Azure::builder().endpoint(azurite.endpoint()).account(Azurite::ACCOUNT).access_key("aGlkZGVu");
    let error = wrong.bucket(&context, "container").unwrap().open("new").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

/// Makes a container: a PUT, signed by Azure's rules for shared keys.
async fn make_container(azurite: &Azurite, name: &str) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use warpio_remote::object_store::azure::{AzureAccessKey, AzureAuthorizer};
    use warpio_remote::object_store::client::HttpRequestBody;

    let key = AzureAccessKey::try_new(Azurite::KEY).unwrap();
    let credential = warpio_remote::object_store::azure::AzureCredential::AccessKey(key);
    let url = format!("{}/{name}?restype=container", azurite.endpoint());
    let mut request = http::Request::builder()
        .method("PUT")
        .uri(&url)
        .header("content-length", "0")
        .body(HttpRequestBody::empty())
        .unwrap();
    AzureAuthorizer::new(&credential, Azurite::ACCOUNT).try_authorize(&mut request).unwrap();
    let (_, rest) = url.split_once("://").unwrap();
    let (address, target) = rest.split_at(rest.find('/').unwrap());
    let mut text = format!("PUT {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in request.headers() {
        text += &format!("{name}: {}\r\n", value.to_str().unwrap());
    }
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all((text + "\r\n").as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(reply.split(' ').nth(1) == Some("201"), "{reply}");
}
