//! GCS: the key of a service account. What an instance is given can be said by the environment alone, so that its test
//! is one of the program's.

use std::process::Command;

use warpio_remote::{Gcs, Remote};
use warpio_tests::servers::fault::FaultServer;
use warpio_tests::servers::{find, missing};

use super::{Revoked, SECRET, bearers, expect_refusal};
use crate::support::{host, pattern, read_all, read_at, store};

/// A service account's key in a folder with its public half, or nothing where openssl is not installed.
struct Account {
    folder: tempfile::TempDir,
    json: String,
}

fn openssl(arguments: &[&str], folder: &std::path::Path) -> Option<String> {
    let program = find("openssl", "WARPIO_TEST_OPENSSL")?;
    let done = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    Some(String::from_utf8(done.stdout).unwrap())
}

impl Account {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let key = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "key.pem"];
        if openssl(&key, folder.path()).is_none() {
            missing("openssl", "Debian: apt-get install openssl");
            return None;
        }
        openssl(&["pkey", "-in", "key.pem", "-pubout", "-out", "public.pem"], folder.path());
        let key = std::fs::read_to_string(folder.path().join("key.pem")).unwrap().replace('\n', "\\n");
        let json = format!(
            "{{\"type\":\"service_account\",\"private_key\":\"{key}\",\"private_key_id\":\"the-key\",\
             \"client_email\":\"me@example.org\"}}"
        );
        Some(Self { folder, json })
    }

    async fn open(&self, store: &FaultServer) -> Remote {
        let gcs = Gcs::builder().endpoint(store.url("")).service_account_key(&*self.json);
        gcs.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap()
    }

    /// Whether a signed token is this account's; returns what it says.
    fn check(&self, bearer: &str) -> String {
        let (signed, signature) = bearer.strip_prefix("Bearer ").unwrap().rsplit_once('.').unwrap();
        let at = |name: &str| self.folder.path().join(name);
        std::fs::write(at("signed"), signed).unwrap();
        std::fs::write(at("signature"), base64url(signature)).unwrap();
        let verify = ["dgst", "-sha256", "-verify", "public.pem", "-signature", "signature", "signed"];
        assert_eq!(openssl(&verify, self.folder.path()).unwrap().trim(), "Verified OK");
        String::from_utf8(base64url(signed.split('.').nth(1).unwrap())).unwrap()
    }
}

/// The number behind a name, in JSON.
fn number(json: &str, name: &str) -> u64 {
    let (_, rest) = json.split_once(&format!("\"{name}\":")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

fn base64url(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digits: Vec<usize> = text.chars().map(|digit| DIGITS.find(digit).expect("a digit")).collect();
    let group = |group: &[usize]| {
        let bits = group.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - group.len()));
        let bytes = [16, 8, 0].map(|shift| (bits >> shift) as u8);
        bytes[..group.len() - 1].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_signs_its_own_tokens() {
    let Some(account) = Account::new() else { return };
    let store = store().await;
    let source = account.open(&store).await;
    assert_eq!(read_all(&source).await.unwrap(), pattern(1000));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for bearer in bearers(&store) {
        let says = account.check(&bearer);
        assert!(says.contains("\"iss\":\"me@example.org\""), "{says}");
        assert_eq!(number(&says, "exp"), number(&says, "iat") + 3600);
        assert!(number(&says, "exp") > now && number(&says, "iat") <= now, "{says}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_the_store_refuses_is_told_as_that() {
    static REVOKED: Revoked = Revoked::not_yet();
    let store = REVOKED.store().await;
    let gcs = Gcs::builder().endpoint(store.url("")).bearer_token(format!("{SECRET}-0"));
    let source = gcs.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap();
    assert_eq!(read_at(&source, 0, 100).await.unwrap(), pattern(100));
    REVOKED.now("401 Unauthorized", "AuthenticationRequired");
    expect_refusal(&source, "have expired").await;
}
