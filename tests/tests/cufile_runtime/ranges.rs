//! Many ranges at once.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use warpio::config::CompatMode;
use warpio_core::testing::ranges_contract;
use warpio_tests::ranges::any_ranges;

use crate::support::{MIB, Rig, bytes, chill};

const LEN: usize = 3 * MIB + 4099;

#[tokio::test(flavor = "multi_thread")]
async fn any_ranges_are_read_as_each_by_itself_in_every_mode() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.cold(LEN);
    let rt = rig.runtime();
    let mut runner = TestRunner::default();
    for mode in [CompatMode::Auto, CompatMode::Off, CompatMode::On] {
        let file = rt.open_options().read(true).compat_mode(mode).open(&path).await.unwrap();
        for _ in 0..6 {
            let ranges = any_ranges(LEN, MIB as u64, 60).new_tree(&mut runner).unwrap().current();
            println!("{mode}: {ranges:?}");
            chill(&path);
            ranges_contract(&file, &rig.device, &ranges, &bytes()[..LEN]).await;
        }
    }
    assert!(rig.mock.calls("Read") + rig.mock.calls("ReadAsync") + rig.mock.calls("BatchIOSubmit") > 1, "by cuFile");
}
