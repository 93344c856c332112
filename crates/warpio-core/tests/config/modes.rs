//! Devices and modes by name.

use proptest::prelude::*;
use warpio_core::ErrorKind;
use warpio_core::config::{DeviceSpec, DirectIo, Switch};

proptest! {
    #[test]
    fn every_gpu_has_a_name(ordinal in any::<u32>()) {
        let spec = DeviceSpec::Cuda(ordinal);
        prop_assert_eq!(spec.to_string().parse::<DeviceSpec>().unwrap(), spec);
    }
}

#[test]
fn devices_have_names() {
    for (text, spec) in [
        ("auto", DeviceSpec::Auto),
        ("host", DeviceSpec::Host),
        ("cuda", DeviceSpec::Cuda(0)),
        ("cuda:0", DeviceSpec::Cuda(0)),
        ("cuda:7", DeviceSpec::Cuda(7)),
    ] {
        assert_eq!(text.parse::<DeviceSpec>().unwrap(), spec);
    }
    assert_eq!(DeviceSpec::default(), DeviceSpec::Auto);
}

#[test]
fn what_is_no_device_is_refused_and_told() {
    for text in
        ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:4294967296", "cuda1", "CUDA:1 ", " auto"]
    {
        let error = text.parse::<DeviceSpec>().expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains("auto, host or cuda:N"), "{error}");
    }
}

#[test]
fn modes_have_names_in_any_case() {
    for mode in [DirectIo::Auto, DirectIo::Always, DirectIo::Never] {
        assert_eq!(mode.to_string().parse::<DirectIo>().unwrap(), mode);
        assert_eq!(mode.to_string().to_uppercase().parse::<DirectIo>().unwrap(), mode);
    }
    for switch in [Switch::Auto, Switch::Off] {
        assert_eq!(switch.to_string().parse::<Switch>().unwrap(), switch);
    }
    assert_eq!((DirectIo::default(), Switch::default()), (DirectIo::Auto, Switch::Auto));
}

#[test]
fn a_mode_that_does_not_exist_is_told_which_do() {
    let error = "sometimes".parse::<DirectIo>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("\"sometimes\" is none of: auto, always, never"), "{error}");
}
