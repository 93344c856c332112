use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use object_store::ObjectStore;
use object_store::path::Path;
use warpio_core::engine::{Engine, Starter, Stats};
use warpio_core::plan::Split;
use warpio_core::{Device, Result};

use crate::http::Client;
use crate::kind::Kind;
use crate::net::Net;
use crate::origin::{Origin, Store, StoreOrigin};
use crate::read::{Object, Remote, RemoteEngine};
use crate::server::Server;
use crate::settings::RemoteSettings;
use crate::store::{Azure, Bucket, Gcs, S3};
use crate::write::{Backend, RemoteSink};

/// What remote sources and sinks share: a device, network threads, connections, and what is known of each server.
/// Cheap to clone; the clones share it too.
///
/// Nothing is started before the first source is opened.
#[derive(Clone)]
pub struct RemoteContext {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    stats: Stats,
    settings: Arc<RemoteSettings>,
    net: OnceLock<Result<Arc<Net>>>,
    client: OnceLock<Result<Client>>,
    servers: Mutex<HashMap<String, Shared>>,
    /// Those that were described by the environment: each has credentials that are renewed, and connections.
    buckets: Mutex<HashMap<BucketKey, Stores>>,
}

/// The kind, the account where the URL names one, and the bucket.
type BucketKey = (Kind, Option<String>, String);

/// The store, and the one that keeps what is there.
type Stores = (Store, Store);

#[derive(Clone)]
struct Shared {
    server: Arc<Server>,
    engine: Arc<dyn Engine>,
}

/// Segments of host memory; those of a GPU are as long as a staging slot. Each is on its way when it is full.
const SEGMENT: usize = 4 << 20;

impl RemoteContext {
    /// A context for sources that read into `device` by default.
    pub fn new(device: Device) -> Self {
        Self::with_settings(device, RemoteSettings::default())
    }

    /// As [`new`](Self::new), with settings.
    pub fn with_settings(device: Device, settings: RemoteSettings) -> Self {
        Self::with_stats(device, settings, &Stats::default())
    }

    /// As [`with_settings`](Self::with_settings); transfers are counted in `stats`, which can also refuse them.
    pub fn with_stats(device: Device, settings: RemoteSettings, stats: &Stats) -> Self {
        let inner = Inner {
            device,
            stats: stats.clone(),
            settings: Arc::new(settings),
            net: OnceLock::new(),
            client: OnceLock::new(),
            servers: Mutex::default(),
            buckets: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The device that sources read into by default.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The settings.
    pub fn settings(&self) -> &RemoteSettings {
        &self.inner.settings
    }

    /// An object of any store. Whether it is there is found out by the first read. The store's own repetitions are not
    /// under these settings: build it without.
    ///
    /// # Errors
    /// [`ResourceLimit`](warpio_core::ErrorKind::ResourceLimit) when no network thread can be started.
    pub fn object(&self, store: Arc<dyn ObjectStore>, path: Path) -> Result<Remote> {
        let base: Arc<str> = format!("store://{store}").into();
        let store = Store {
            store,
            multipart: None,
            kind: "object",
            server: base.clone(),
            base,
            notes: false,
            statuses: self.inner.settings.statuses.clone().into(),
            credentials: None,
        };
        let key = path.to_string();
        self.remote(Arc::new(StoreOrigin::new(store, path, &key)), None)
    }

    pub(crate) fn remote(&self, origin: Arc<dyn Origin>, len: Option<u64>) -> Result<Remote> {
        let Shared { server, engine } = self.server(origin.server())?;
        let split = Split::new(self.segment()).unwrap_or_else(|| unreachable!("not zero"));
        let starter =
            Starter::new(engine, split, origin.name(), self.inner.device.clone()).with_stats(&self.inner.stats);
        Ok(Remote::new(Arc::new(Object::new(origin, len)), server, starter))
    }

    /// A bucket, with what the environment says about its store.
    pub(crate) fn bucket(&self, kind: Kind, account: Option<&str>, name: &str) -> Result<Bucket> {
        let key = (kind, account.map(str::to_owned), name.to_owned());
        let lock = || self.inner.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&key).cloned();
        if let Some((store, create_only)) = known {
            return Ok(Bucket { context: self.clone(), store, create_only });
        }
        let bucket = match (kind, account) {
            (Kind::Gcs, _) => Gcs::from_env().bucket(self, name)?,
            (Kind::Azure, Some(account)) => Azure::from_env().account(account).bucket(self, name)?,
            (Kind::Azure, None) => Azure::from_env().bucket(self, name)?,
            _ => S3::from_env().bucket(self, name)?,
        };
        lock().insert(key, (bucket.store.clone(), bucket.create_only.clone()));
        Ok(bucket)
    }

    pub(crate) fn sink(&self, backend: Box<dyn Backend>, server: &str) -> Result<RemoteSink> {
        let split = Split::new(SEGMENT).unwrap_or_else(|| unreachable!("not zero"));
        let server = self.server(server)?.server;
        Ok(RemoteSink::new(backend, server, self.inner.device.clone(), split, &self.inner.stats))
    }

    pub(crate) fn server_of(&self, name: &str) -> Result<Arc<Server>> {
        Ok(self.server(name)?.server)
    }

    fn server(&self, name: &str) -> Result<Shared> {
        let net = self.net()?;
        let mut servers = self.inner.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = servers.get(name) {
            return Ok(shared.clone());
        }
        let device = &self.inner.device;
        let least = if device.is_host_visible() { self.segment() } else { device.staging().slot_len() };
        let server = Arc::new(Server::new(net, self.inner.settings.clone(), least));
        let shared = Shared { server: server.clone(), engine: Arc::new(RemoteEngine::new(server)) };
        servers.insert(name.to_owned(), shared.clone());
        Ok(shared)
    }

    /// A part that is asked for has at least one segment.
    fn segment(&self) -> usize {
        let part = self.inner.settings.part_size.unwrap_or(u64::MAX).max(1);
        SEGMENT.min(usize::try_from(part).unwrap_or(SEGMENT))
    }

    pub(crate) fn net(&self) -> Result<Arc<Net>> {
        let start = || Net::start(self.inner.settings.thread_count()).map(Arc::new);
        self.inner.net.get_or_init(start).clone()
    }

    pub(crate) fn client(&self) -> Result<Client> {
        self.inner.client.get_or_init(|| Client::new(&self.inner.settings)).clone()
    }
}

impl fmt::Debug for RemoteContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteContext").field("device", &self.inner.device).finish_non_exhaustive()
    }
}
