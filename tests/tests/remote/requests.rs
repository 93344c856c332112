//! What stores are asked, as it stands on the wire.

use warpio_remote::{Azure, Bucket, Gcs, S3};
use warpio_tests::servers::fault::{FaultServer, Seen};

use crate::support::{host, pattern, read_all, store};

/// Reads an object of a bucket; returns the requests that it took.
async fn requests(bucket: &Bucket, store: &FaultServer) -> Vec<Seen> {
    assert_eq!(read_all(&bucket.open("a/b c").await.unwrap()).await.unwrap(), pattern(1000));
    store.seen()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_stands_in_the_path_or_in_the_host() {
    // The address begins with the name of the bucket, as `bucket.server` does: no other host would be found.
    for (virtual_style, target) in [(false, "/127/a/b%20c"), (true, "/a/b%20c")] {
        let store = store().await;
        let s3 = S3::builder().endpoint(store.url("")).region("eu-north-1").credentials("the-id", "secret");
        let bucket = s3.virtual_style(virtual_style).bucket(&host(|_| {}), "127").unwrap();
        for seen in requests(&bucket, &store).await {
            assert_eq!(seen.target, target);
            assert_eq!(seen.header("host"), store.address().to_string());
            let signature = seen.header("authorization");
            assert!(signature.starts_with("AWS4-HMAC-SHA256 Credential=the-id/"), "{signature}");
            assert!(signature.contains("/eu-north-1/s3/aws4_request"), "{signature}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_access_signature_is_sent_as_it_was_given() {
    let store = store().await;
    let azure = Azure::builder().endpoint(store.url("/account")).account("account");
    let signed = azure.shared_access_signature("?sv=2020-10-02&sp=r&sig=a%2Fb%2Bc%3D").unwrap();
    for seen in requests(&signed.bucket(&host(|_| {}), "container").unwrap(), &store).await {
        let (path, query) = seen.target.split_once('?').unwrap();
        assert_eq!(path, "/account/container/a/b%20c");
        assert!(query.contains("sig=a%2Fb%2Bc%3D") && query.contains("sp=r"), "{query}");
        assert_eq!(seen.header("authorization"), "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_public_is_asked_for_without_a_signature() {
    let context = host(|_| {});
    let (s3, gcs, azure) = (store().await, store().await, store().await);
    for (bucket, store) in [
        (S3::builder().endpoint(s3.url("")).anonymous().bucket(&context, "bucket"), &s3),
        (Gcs::builder().endpoint(gcs.url("")).anonymous().bucket(&context, "bucket"), &gcs),
        (Azure::builder().endpoint(azure.url("/x")).account("x").anonymous().bucket(&context, "bucket"), &azure),
    ] {
        for seen in requests(&bucket.unwrap(), store).await {
            assert_eq!(seen.header("authorization"), "", "{}", seen.target);
        }
    }
}
