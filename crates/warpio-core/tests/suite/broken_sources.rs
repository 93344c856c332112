//! Sources with one defect each: the suite must find it.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::future::BoxFuture;
use warpio_core::testing::{MemorySource, pattern, read_contract};
use warpio_core::{
    AsyncDeviceRead, Description, Device, DeviceBytesMut, Error, ErrorKind, Failed, Moved, Ranges, Result, Scattered,
    Transfer,
};

use crate::support::{block_on, ready};

const LEN: usize = 200_003;

#[derive(Clone, Copy, Debug)]
enum Defect {
    None,
    WrongSize,
    WrongOffset,
    OneWrongByte,
    ClaimsWhatWasAskedFor,
    EndIsAnError,
    OverflowIsTheEnd,
    EmptyIsAnError,
    LosesTheBuffer,
    CutsTheBuffer,
    ForgetsRanges,
    ScattersElsewhere,
    ScattersFarRangesAsNothing,
}

#[derive(Debug)]
struct Broken(MemorySource, Defect);

impl AsyncDeviceRead for Broken {
    fn device(&self) -> &Device {
        self.0.device()
    }

    fn describe(&self) -> Description {
        Description::new("broken", "broken", "broken")
    }

    fn size(&self) -> BoxFuture<'_, Result<u64>> {
        let wrong = matches!(self.1, Defect::WrongSize);
        Box::pin(std::future::ready(Ok(LEN as u64 + u64::from(wrong))))
    }

    fn read_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer {
        let (completer, transfer) = Transfer::channel();
        if matches!(self.1, Defect::EmptyIsAnError) && buf.is_empty() {
            let failed = Failed { error: Error::invalid_input("nothing to read"), buffer: Some(buf) };
            completer.complete(Err(failed));
            return transfer;
        }
        let len = buf.len();
        let shift = u64::from(matches!(self.1, Defect::WrongOffset) && offset > LEN as u64 / 2);
        let mut result = ready(self.0.read_at(offset.saturating_sub(shift), buf));
        match (self.1, &mut result) {
            (Defect::OneWrongByte, Ok(Moved { n, buffer })) if *n > 70_000 => {
                buffer.as_mut_slice().unwrap()[65_537] ^= 1;
            }
            (Defect::ClaimsWhatWasAskedFor, Ok(Moved { n, .. })) => *n = len,
            (Defect::CutsTheBuffer, Ok(Moved { n, buffer })) => drop(buffer.split_off(*n)),
            (Defect::LosesTheBuffer, Err(failed)) => failed.buffer = None,
            _ => {}
        }
        completer.complete(match (self.1, result) {
            (Defect::EndIsAnError, Ok(Moved { n, buffer })) if n < len => {
                Err(Failed { error: Error::new(ErrorKind::UnexpectedEof), buffer: Some(buffer) })
            }
            (Defect::OverflowIsTheEnd, Err(Failed { buffer: Some(buffer), .. })) => Ok(Moved { n: 0, buffer }),
            (_, result) => result,
        });
        transfer
    }

    fn read_ranges(&self, ranges: &[Range<u64>], buf: DeviceBytesMut) -> Transfer<Ranges> {
        let few = match self.1 {
            Defect::ForgetsRanges => &ranges[..ranges.len().min(1)],
            _ => ranges,
        };
        self.0.read_ranges(few, buf)
    }

    fn read_scatter(&self, requests: Vec<(u64, DeviceBytesMut)>) -> Transfer<Scattered> {
        let shift = |(at, buffer): (u64, DeviceBytesMut)| match self.1 {
            Defect::ScattersElsewhere if at > 7 => (at - 1, buffer),
            Defect::ScattersFarRangesAsNothing if at == u64::MAX => (0, buffer),
            _ => (at, buffer),
        };
        self.0.read_scatter(requests.into_iter().map(shift).collect())
    }
}

fn passes(defect: Defect) -> bool {
    let source = Broken(MemorySource::new(pattern(LEN)), defect);
    catch_unwind(AssertUnwindSafe(|| block_on(read_contract(&source, LEN)))).is_ok()
}

#[test]
fn the_double_without_a_defect_passes() {
    assert!(passes(Defect::None));
}

#[test]
fn every_defect_is_found() {
    for defect in [
        Defect::WrongSize,
        Defect::WrongOffset,
        Defect::OneWrongByte,
        Defect::ClaimsWhatWasAskedFor,
        Defect::EndIsAnError,
        Defect::OverflowIsTheEnd,
        Defect::EmptyIsAnError,
        Defect::LosesTheBuffer,
        Defect::CutsTheBuffer,
        Defect::ForgetsRanges,
        Defect::ScattersElsewhere,
        Defect::ScattersFarRangesAsNothing,
    ] {
        assert!(!passes(defect), "{defect:?} was not found");
    }
}
