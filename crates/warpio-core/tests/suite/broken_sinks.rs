//! Sinks with one defect each: the suite must find it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use futures::future::BoxFuture;
use warpio_core::testing::write_contract;
use warpio_core::{AsyncDeviceWrite, Description, Device, DeviceBytes, Error, Failed, Result, Transfer};

use crate::support::block_on;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    None,
    WrongOffset,
    OneWrongByte,
    LosesTheLastByte,
    OverflowIsIgnored,
    LosesTheBuffer,
    CutsTheBuffer,
    SyncFails,
    FinishFails,
}

/// A sink in host memory.
#[derive(Debug)]
struct Broken {
    device: Device,
    content: Mutex<Vec<u8>>,
    defect: Defect,
}

impl Broken {
    fn take(&self, offset: u64, src: &[u8]) {
        let shift = usize::from(self.defect == Defect::WrongOffset && offset > 0);
        let start = offset as usize + shift;
        let lost = usize::from(self.defect == Defect::LosesTheLastByte && !src.is_empty());
        let src = &src[..src.len() - lost];
        let mut content = self.content.lock().unwrap();
        let len = content.len().max(start + src.len());
        content.resize(len, 0);
        content[start..start + src.len()].copy_from_slice(src);
        if self.defect == Defect::OneWrongByte && src.len() > 1000 {
            content[start + 999] ^= 1;
        }
    }

    fn result(&self, broken: Defect) -> BoxFuture<'_, Result<()>> {
        let result = match self.defect == broken {
            true => Err(Error::unsupported("broken")),
            false => Ok(()),
        };
        Box::pin(std::future::ready(result))
    }
}

impl AsyncDeviceWrite for Broken {
    fn device(&self) -> &Device {
        &self.device
    }

    fn describe(&self) -> Description {
        Description::new("broken", "broken", "broken")
    }

    fn write_at(&self, offset: u64, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        if offset > i64::MAX as u64 - buf.len() as u64 && self.defect != Defect::OverflowIsIgnored {
            let back = (self.defect != Defect::LosesTheBuffer).then_some(buf);
            return Transfer::failed(Error::invalid_input("too far"), back);
        }
        if offset < 1 << 40 {
            self.take(offset, buf.as_slice().unwrap());
        }
        let (completer, transfer) = Transfer::channel();
        let back = if self.defect == Defect::CutsTheBuffer { buf.slice(..buf.len() / 2) } else { buf };
        completer.complete(Ok::<_, Failed<_>>(back));
        transfer
    }

    fn sync(&self) -> BoxFuture<'_, Result<()>> {
        self.result(Defect::SyncFails)
    }

    fn finish(&self) -> BoxFuture<'_, Result<()>> {
        self.result(Defect::FinishFails)
    }
}

fn passes(defect: Defect) -> bool {
    let sink = Broken { device: Device::host(), content: Mutex::default(), defect };
    let content = || std::future::ready(sink.content.lock().unwrap().clone());
    catch_unwind(AssertUnwindSafe(|| block_on(write_contract(&sink, content)))).is_ok()
}

#[test]
fn the_double_without_a_defect_passes() {
    assert!(passes(Defect::None));
}

#[test]
fn every_defect_is_found() {
    for defect in [
        Defect::WrongOffset,
        Defect::OneWrongByte,
        Defect::LosesTheLastByte,
        Defect::OverflowIsIgnored,
        Defect::LosesTheBuffer,
        Defect::CutsTheBuffer,
        Defect::SyncFails,
        Defect::FinishFails,
    ] {
        assert!(!passes(defect), "{defect:?} was not found");
    }
}
