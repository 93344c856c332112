//! nginx: a real HTTP server, with TLS.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::process::{Process, find, free_address, missing};

/// A running nginx, that serves a folder.
#[derive(Debug)]
pub struct Nginx {
    _process: Process,
    folder: TempDir,
    http: String,
    https: String,
}

impl Nginx {
    /// Starts nginx with so many workers, or says that it is not there.
    ///
    /// # Panics
    /// If it is there and does not start.
    pub fn start(workers: usize) -> Option<Self> {
        Self::start_with(workers, "")
    }

    /// As [`start`](Self::start), with further `location`s.
    ///
    /// # Panics
    /// As for [`start`](Self::start).
    pub fn start_with(workers: usize, locations: &str) -> Option<Self> {
        let Some(nginx) = find("nginx", "WARPIO_TEST_NGINX") else {
            missing("nginx", "Debian: apt-get install nginx-light");
            return None;
        };
        let Some(openssl) = find("openssl", "WARPIO_TEST_OPENSSL") else {
            missing("openssl", "Debian: apt-get install openssl");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        std::fs::create_dir(path.join("www")).expect("a folder");
        certificates(&openssl, path);
        let (http, https) = (free_address(), free_address());
        let text = configuration(path, workers, &http.to_string(), &https.to_string(), locations);
        std::fs::write(path.join("nginx.conf"), text).expect("a configuration");
        let mut command = Command::new(nginx);
        command.arg("-p").arg(path).arg("-c").arg(path.join("nginx.conf")).arg("-e").arg("stderr");
        let process = Process::start("nginx", &mut command, http, path);
        Some(Self { _process: process, folder, http: format!("http://{http}"), https: format!("https://{https}") })
    }

    /// Where files are that it serves.
    pub fn files(&self) -> PathBuf {
        self.folder.path().join("www")
    }

    /// The URL of a file, by HTTP.
    pub fn http(&self, path: &str) -> String {
        format!("{}{path}", self.http)
    }

    /// The URL of a file, by HTTPS. The certificate is for 127.0.0.1 and localhost.
    pub fn https(&self, path: &str) -> String {
        format!("{}{path}", self.https)
    }

    /// The certificate that signed the server's, as PEM.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn root_certificate(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("ca.pem")).expect("a certificate")
    }
}

fn configuration(folder: &Path, workers: usize, http: &str, https: &str, further: &str) -> String {
    let folder = folder.display();
    let locations = format!(
        "{further}
        location / {{ }}
        location /whole/ {{ alias www/; max_ranges 0; }}
        location /private/ {{ alias www/; auth_basic x; auth_basic_user_file users; }}
        location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }}
        location /zipped/ {{ alias www/; gzip on; gzip_types *; gzip_min_length 1; gzip_http_version 1.0; }}
        "
    );
    // me:secret, as `openssl passwd -apr1` writes it.
    let users = "me:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n";
    std::fs::write(Path::new(&folder.to_string()).join("users"), users).expect("a file");
    format!(
        "
daemon off;
worker_processes {workers};
pid {folder}/pid;
error_log stderr;
events {{ worker_connections 512; }}
http {{
    access_log off;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 100000;
    client_max_body_size 0;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    root {folder}/www;
    server {{
        listen {http};
        {locations}
    }}
    server {{
        listen {https} ssl;
        ssl_certificate {folder}/server.pem;
        ssl_certificate_key {folder}/server.key;
        {locations}
    }}
}}
"
    )
    .replace("alias www/", &format!("alias {folder}/www/"))
    .replace("user_file users", &format!("user_file {folder}/users"))
}

/// An authority, and a certificate that it signed for this machine.
fn certificates(openssl: &Path, folder: &Path) {
    let run = |arguments: &str| {
        let done = Command::new(openssl).args(arguments.split(' ')).current_dir(folder).output().expect("openssl");
        assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    run(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 3 -subj /CN=warpio-test-authority"));
    run(&format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"));
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("a file");
    run("x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3 -extfile names -out server.pem");
}
