use std::io;
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use warpio_core::{Error, Result};

use super::fault::{Fault, FaultKind};

/// Certificates that connections are checked against: those of the system (or of `SSL_CERT_FILE`), read at the first
/// TLS connection, and further ones.
#[derive(Clone)]
pub(super) struct Tls {
    further: Vec<CertificateDer<'static>>,
    connector: OnceLock<Result<TlsConnector, Fault>>,
}

impl Tls {
    /// `roots` are trusted besides the system's.
    pub(super) fn new(roots: &[Vec<u8>]) -> Result<Self> {
        let mut further = Vec::new();
        for pem in roots {
            let before = further.len();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate
                    .map_err(|error| Error::invalid_input(format!("a root certificate cannot be read: {error}")))?;
                further.push(certificate);
            }
            if further.len() == before {
                return Err(Error::invalid_input("a root certificate was given that holds no PEM certificate"));
            }
        }
        Ok(Self { further, connector: OnceLock::new() })
    }

    pub(super) async fn connect(&self, host: &str, tcp: TcpStream) -> Result<TlsStream<TcpStream>, Fault> {
        let connector = self.connector.get_or_init(|| self.start()).clone()?;
        // An IPv6 address stands in brackets in URLs only.
        let host = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host)
            .map_err(|_| Fault::new(FaultKind::Request, "no certificate can be for this host name"))?;
        connector.connect(name, tcp).await.map_err(|error| match Fault::from_io(error) {
            fault if fault.kind() == FaultKind::Certificate => fault,
            fault => Fault::new(FaultKind::Connect, format!("the TLS handshake failed: {fault}")),
        })
    }

    fn start(&self) -> Result<TlsConnector, Fault> {
        let mut roots = RootCertStore::empty();
        let system = rustls_native_certs::load_native_certs();
        let (used, _) = roots.add_parsable_certificates(system.certs);
        for certificate in &self.further {
            let added = roots.add(certificate.clone());
            added.map_err(|error| {
                Fault::new(FaultKind::Certificate, format!("a root certificate cannot be used: {error}"))
            })?;
        }
        if roots.is_empty() {
            let reasons: Vec<_> = system.errors.iter().map(ToString::to_string).collect();
            return Err(Fault::new(
                FaultKind::Certificate,
                format!(
                    "there are no root certificates to check servers against; install the system's ca-certificates, \
                     or set SSL_CERT_FILE {}",
                    reasons.join(", ")
                ),
            ));
        }
        tracing::debug!(system = used, further = self.further.len(), "root certificates");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::from_io(io::Error::other(error)))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}
