//! References and boxes of sources and sinks are sources and sinks.

use std::ops::Range;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{AsyncDeviceRead, AsyncDeviceWrite, Description};
use crate::Result;
use crate::buffer::{DeviceBytes, DeviceBytesMut};
use crate::device::Device;
use crate::transfer::{Ranges, Scattered, Transfer};

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<S: AsyncDeviceRead + ?Sized> AsyncDeviceRead for $pointer {
            fn device(&self) -> &Device {
                (**self).device()
            }
            fn describe(&self) -> Description {
                (**self).describe()
            }
            fn size(&self) -> BoxFuture<'_, Result<u64>> {
                (**self).size()
            }
            fn read_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer {
                (**self).read_at(offset, buf)
            }
            fn read_ranges(&self, ranges: &[Range<u64>], buf: DeviceBytesMut) -> Transfer<Ranges> {
                (**self).read_ranges(ranges, buf)
            }
            fn read_scatter(&self, requests: Vec<(u64, DeviceBytesMut)>) -> Transfer<Scattered> {
                (**self).read_scatter(requests)
            }
        }

        impl<S: AsyncDeviceWrite + ?Sized> AsyncDeviceWrite for $pointer {
            fn device(&self) -> &Device {
                (**self).device()
            }
            fn describe(&self) -> Description {
                (**self).describe()
            }
            fn write_at(&self, offset: u64, buf: DeviceBytes) -> Transfer<DeviceBytes> {
                (**self).write_at(offset, buf)
            }
            fn append(&self, buf: DeviceBytes) -> Transfer<DeviceBytes> {
                (**self).append(buf)
            }
            fn set_len(&self, len: u64) -> BoxFuture<'_, Result<()>> {
                (**self).set_len(len)
            }
            fn sync(&self) -> BoxFuture<'_, Result<()>> {
                (**self).sync()
            }
            fn finish(&self) -> BoxFuture<'_, Result<()>> {
                (**self).finish()
            }
        }
    )*};
}

forward!(&S, Arc<S>, Box<S>);
