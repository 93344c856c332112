//! Whether GPUDirect Storage is on, as an open driver tells it.

use warpio_cufile::{BoolParameter, Driver, GdsPath, ReasonKind};

use crate::support::{Rig, options};

#[test]
fn presets_of_the_driver_are_told_apart() {
    for (mode, path) in [("gds", Some(GdsPath::NvidiaFs)), ("p2p", Some(GdsPath::PeerToPeer)), ("compat", None)] {
        let Some(rig) = Rig::new(&format!("mode {mode}")) else { return };
        let availability = rig.driver().availability().unwrap();
        assert_eq!(availability.path, path, "{mode}");
        assert_eq!(availability.reasons.is_empty(), path.is_some(), "{mode}");
        let storage: Vec<_> = availability.storage.iter().map(|(fs, path)| (fs.name(), *path)).collect();
        assert_eq!(storage, path.map(|path| vec![("NVMe", path)]).unwrap_or_default());
    }
}

#[test]
fn the_reason_and_what_would_change_it_are_told() {
    let Some(rig) = Rig::new("mode compat") else { return };
    let kinds: Vec<_> = rig.driver().availability().unwrap().reasons.into_iter().map(|reason| reason.kind).collect();
    assert_eq!(kinds, [ReasonKind::NoNvidiaFs, ReasonKind::NoPeerToPeer]);
}

#[test]
fn compatibility_that_is_forced_by_a_parameter_is_a_reason() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let options = options().bool_parameter(BoolParameter::ForceCompatMode, true);
    let driver = Driver::open(rig.library, &rig.device, &options).unwrap();
    let availability = driver.availability().unwrap();
    assert!(!availability.is_on());
    assert_eq!(availability.reasons[0].kind, ReasonKind::ForcedCompat);
}
