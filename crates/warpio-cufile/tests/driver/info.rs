//! What there is to know, in one structure.

use warpio_cufile::{GdsPath, SizeParameter};

use crate::support::Rig;

#[test]
fn an_open_driver_tells_what_it_is() {
    let Some(rig) = Rig::new("mode p2p") else { return };
    let info = rig.driver().info().unwrap();
    assert_eq!(info.availability.path, Some(GdsPath::PeerToPeer));
    assert!(info.properties.peer_to_peer() && info.properties.nvidia_fs().is_none());
    let nvme = info.peer_flags.iter().find(|(fs, _)| fs.name() == "NVMe").map(|(_, flags)| *flags).unwrap();
    assert_eq!(nvme.names().collect::<Vec<_>>(), ["p2pdma"]);
    assert!(info.sizes.contains(&(SizeParameter::IoBatchSize, 128)));
}
