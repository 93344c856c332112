use std::process::Command;

use warpio_core::ErrorKind;
use warpio_cuda::{CudaOptions, Unavailable, cuda_device, devices, probe};
use warpio_tests::mock_gpu;

use crate::support::{Gpu, mock_of, session};

#[test]
fn the_driver_is_found_once() {
    let session = session();
    let found = probe().unwrap();
    assert!(found.devices >= 1 && found.driver >= warpio_cuda::DriverVersion::OLDEST, "{found:?}");
    assert_eq!(probe().unwrap(), found);
    if let Some(mock) = session.control() {
        assert_eq!(mock.calls("cuInit"), 0, "asked again");
        assert_eq!((found.driver.major, found.devices), (13, 2));
    }
}

#[test]
fn devices_are_described() {
    let _session = session();
    let devices = devices().unwrap();
    assert_eq!(devices.len(), probe().unwrap().devices as usize);
    for (ordinal, device) in devices.iter().enumerate() {
        assert_eq!(device.ordinal as usize, ordinal);
        assert!(!device.name.is_empty() && device.memory > 1 << 30, "{device:?}");
        assert!(device.compute_capability.0 >= 5, "{device:?}");
        assert!(device.pci_bus_id.len() >= 12 && device.pci_bus_id.ends_with(".0"), "{device:?}");
        assert_eq!(device.pci_bus_id, device.pci_bus_id.to_ascii_lowercase());
    }
}

#[test]
fn an_index_out_of_range_says_how_many_there_are() {
    let _session = session();
    let count = probe().unwrap().devices;
    for ordinal in [count, u32::MAX] {
        let error = cuda_device(ordinal, CudaOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoDevice);
        let text = error.to_string();
        assert!(text.contains(&format!("no CUDA device {ordinal}")) && text.contains(&count.to_string()), "{text}");
    }
}

#[test]
fn a_device_says_which_it_is() {
    let gpu = Gpu::new();
    assert_eq!((gpu.device.id().kind, gpu.device.id().ordinal), ("cuda", 0));
    assert_eq!(gpu.device.to_string(), "cuda:0");
    assert!(!gpu.device.is_host_visible());
}

#[test]
fn settings_are_checked() {
    let _session = session();
    let mut options = CudaOptions::default();
    options.pool.slot_len = 1000;
    assert_eq!(cuda_device(0, options).unwrap_err().kind(), ErrorKind::InvalidConfig);
}

/// What a process of its own finds on a software GPU that was told to fail.
fn probe_with(plan: &str, devices: &str) -> Option<String> {
    let session = session();
    mock_of(&session)?;
    let mock = mock_gpu::path().expect("the software GPU lies beside the test");
    let output = Command::new(env!("CARGO_BIN_EXE_cuda_probe"))
        .env("LD_PRELOAD", mock)
        .env("MOCK_CUDA_PLAN", plan)
        .env("CUDA_VISIBLE_DEVICES", devices)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_process_finds_what_it_may_see() {
    for (visible, count) in [("0,1", 2), ("1", 1)] {
        let Some(text) = probe_with("", visible) else { return };
        assert!(text.contains(&format!("with {count} devices")) && text.contains("cuda:0"), "{text}");
    }
}

#[test]
fn a_driver_without_a_device_is_told_from_no_driver() {
    for (plan, visible) in [("fail cuInit 100", "0"), ("fail cuDeviceGetCount 100", "0"), ("", "-1")] {
        let Some(text) = probe_with(plan, visible) else { return };
        assert!(text.starts_with("NoDevice: no device"), "{plan}: {text}");
        assert!(text.contains("NoDevice: CUDA is not available"), "{text}");
    }
}

#[test]
fn a_driver_too_old_says_what_it_supports() {
    let Some(text) = probe_with("driver_version 11080", "0") else { return };
    assert!(text.starts_with("TooOld") && text.contains("CUDA 11.8") && text.contains("12.0 is needed"), "{text}");
}

#[test]
fn a_driver_that_does_not_start_says_why() {
    for (code, name) in [(34, "STUB_LIBRARY"), (803, "SYSTEM_DRIVER_MISMATCH"), (999, "UNKNOWN"), (802, "NOT_READY")] {
        let Some(text) = probe_with(&format!("fail cuInit {code}"), "0") else { return };
        assert!(text.starts_with("Driver(") && text.contains(name) && text.contains("cuInit"), "{text}");
    }
}

#[test]
fn reasons_are_errors() {
    let error = warpio_core::Error::from(Unavailable::NoDevice);
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    assert!(!error.is_retryable());
}
