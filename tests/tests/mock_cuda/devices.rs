//! Devices: how many, which, and what they say of themselves.

use cudarc::driver::{result, sys};
use warpio_tests::mock_gpu;

use crate::support::{Gpu, ask, code, in_child};

#[test]
fn there_are_two_devices_that_can_be_told_apart() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    assert_eq!(result::device::get_count().unwrap(), 2);
    let (one, other) = (
        result::device::get(0).unwrap(),
        result::device::get(1).unwrap(),
    );
    assert_ne!(
        result::device::get_name(one).unwrap(),
        result::device::get_name(other).unwrap()
    );
    assert_ne!(
        result::device::get_uuid(one).unwrap(),
        result::device::get_uuid(other).unwrap()
    );
    assert_ne!(bus_id(one), bus_id(other));
}

fn bus_id(device: i32) -> String {
    let mut text = [0_u8; 32];
    // SAFETY: a buffer of 32 bytes.
    unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), 32, device) }
        .result()
        .unwrap();
    let end = text.iter().position(|byte| *byte == 0).unwrap();
    String::from_utf8(text[..end].to_vec()).unwrap()
}

#[test]
fn a_bus_id_leads_back_to_its_device() {
    let _gpu = Gpu::new();
    let id = std::ffi::CString::new(bus_id(0)).unwrap();
    // SAFETY: a NUL-terminated string.
    let found = ask(|out| unsafe { sys::cuDeviceGetByPCIBusId(out, id.as_ptr()) });
    assert_eq!(found, Ok(0));
    let nonsense = c"nonsense";
    // SAFETY: a NUL-terminated string.
    let found = ask::<i32>(|out| unsafe { sys::cuDeviceGetByPCIBusId(out, nonsense.as_ptr()) });
    assert_eq!(code(found), 1);
}

#[test]
fn an_ordinal_out_of_range_is_refused() {
    let _gpu = Gpu::new();
    assert_eq!(code(result::device::get(1000)), 101);
    assert_eq!(code(result::device::get(-1)), 101);
}

#[test]
fn the_name_is_cut_to_the_buffer() {
    let _gpu = Gpu::new();
    let mut text = [0x7f_u8; 8];
    // SAFETY: a buffer of eight bytes, of which five are offered.
    unsafe { sys::cuDeviceGetName(text.as_mut_ptr().cast(), 5, 0) }
        .result()
        .unwrap();
    assert_eq!(text[4..], [0, 0x7f, 0x7f, 0x7f]);
    assert!(text[..4].iter().all(u8::is_ascii));
}

#[test]
fn attributes_can_be_set() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let pools = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    // SAFETY: device 0 exists.
    let get = || unsafe { result::device::get_attribute(0, pools) };
    assert_eq!(get(), Ok(1));
    control.ctl(&format!("attribute 0 {} 0", pools as u32));
    assert_eq!(get(), Ok(0));
    control.ctl("reset");
    assert_eq!(get(), Ok(1));
}

#[test]
fn the_number_of_devices_can_be_set() {
    let variables = [("MOCK_CUDA_DEVICES", "5")];
    in_child(
        "devices::the_number_of_devices_can_be_set",
        &variables,
        || {
            if mock_gpu::is_real() {
                return;
            }
            let _gpu = Gpu::new();
            assert_eq!(result::device::get_count(), Ok(5));
        },
    );
}

#[test]
fn without_devices_the_driver_does_not_initialise() {
    let name = "devices::without_devices_the_driver_does_not_initialise";
    in_child(name, &[("CUDA_VISIBLE_DEVICES", "")], || {
        let _session = mock_gpu::session();
        assert_eq!(code(result::init()), 100);
    });
}

#[test]
fn nothing_works_before_initialisation() {
    in_child("devices::nothing_works_before_initialisation", &[], || {
        let _session = mock_gpu::session();
        assert_eq!(code(result::device::get_count()), 3);
        // SAFETY: a place for the version.
        let version = ask::<i32>(|out| unsafe { sys::cuDriverGetVersion(out) });
        assert!(version.unwrap() >= 12_000);
    });
}

#[test]
fn errors_have_names_and_texts() {
    let _gpu = Gpu::new();
    let error = result::device::get(1000).unwrap_err();
    assert_eq!(error.error_name().unwrap(), c"CUDA_ERROR_INVALID_DEVICE");
    assert_eq!(error.error_string().unwrap(), c"invalid device ordinal");
}
