use tokio::runtime::Runtime as Tokio;
use warpio::remote::RemoteSettings;
use warpio::{AsyncDeviceReadExt, DeviceBytesMut, Runtime};
use warpio_benches::clock::Clock;
use warpio_benches::file;

use super::{Contender, Result};

/// What a user gets.
pub(crate) fn defaults(tokio: &Tokio, url: &str, size: u64) -> Result<Contender> {
    let runtime = tokio.block_on(async { Runtime::new() })?;
    contender(format!("warpio to {}", runtime.device()), tokio, runtime, url, size)
}

/// As many connections as said, from the beginning.
pub(crate) fn fixed(tokio: &Tokio, url: &str, size: u64, connections: usize) -> Result<Contender> {
    let mut settings = RemoteSettings::default();
    settings.connections = connections;
    settings.fixed_connections = true;
    let runtime = tokio.block_on(async { Runtime::builder().remote(settings).build() })?;
    contender(format!("warpio, {connections} connections"), tokio, runtime, url, size)
}

fn contender(name: String, tokio: &Tokio, runtime: Runtime, url: &str, size: u64) -> Result<Contender> {
    let (tokio, url) = (tokio.handle().clone(), url.to_owned());
    let mut buffer: Option<DeviceBytesMut> = None;
    let mut verified = false;
    let run = move || {
        let memory = match buffer.take() {
            Some(buffer) => buffer,
            None => runtime.device().alloc(usize::try_from(size)?)?,
        };
        let clock = Clock::start();
        let memory = tokio.block_on(async {
            let source = runtime.open(&url).await?;
            Ok::<_, warpio::Error>(source.read_exact_at(0, memory).await?)
        })?;
        let cost = clock.stop();
        if !verified {
            verified = true;
            let shared = memory.freeze();
            check(&tokio.block_on(shared.to_host())?)?;
            buffer = shared.try_into_mut().ok();
        } else {
            buffer = Some(memory);
        }
        Ok(cost)
    };
    Ok(Contender { name, run: Box::new(run) })
}

/// A rate of wrong bytes is none.
fn check(bytes: &[u8]) -> Result<()> {
    match file::holds(0, bytes) {
        true => Ok(()),
        false => Err("the bytes are wrong".into()),
    }
}
