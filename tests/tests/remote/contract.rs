//! The contract that all sources share.

use std::sync::Arc;

use proptest::prelude::*;
use warpio_core::testing::{ranges_contract, read_contract};
use warpio_remote::object_store::{ObjectStoreExt, memory::InMemory, path::Path};
use warpio_remote::{Remote, RemoteContext};
use warpio_tests::ranges::any_ranges;
use warpio_tests::servers::fault::{Answer, FaultServer};

use crate::support::{by_http, by_s3, gpu, host, pattern};

const LEN: usize = 1_000_003;

async fn honest() -> FaultServer {
    let object = pattern(LEN);
    FaultServer::start(move |seen| Answer::of(&object, seen).send(&seen.method)).await
}

/// All of the object, whatever is asked for.
async fn without_ranges() -> FaultServer {
    let object = pattern(LEN);
    FaultServer::start(move |seen| {
        let mut seen = seen.clone();
        seen.headers.remove("range");
        Answer::of(&object, &seen).send(&seen.method)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn http_into_host_memory() {
    let server = honest().await;
    read_contract(&by_http(&host(|_| {}), &server).unwrap(), LEN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_into_a_device() {
    let server = honest().await;
    read_contract(&by_http(&gpu(|_| {}), &server).unwrap(), LEN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_in_small_parts() {
    let server = honest().await;
    read_contract(&by_http(&host(|settings| settings.part_size = Some(70_000)), &server).unwrap(), LEN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_ranges() {
    let server = without_ranges().await;
    read_contract(&by_http(&gpu(|_| {}), &server).unwrap(), LEN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_into_a_device() {
    let server = honest().await;
    read_contract(&by_s3(&gpu(|_| {}), &server).unwrap(), LEN).await;
}

async fn in_memory(context: &RemoteContext) -> Remote {
    let store = Arc::new(InMemory::new());
    store.put(&Path::from("object"), pattern(LEN).into()).await.unwrap();
    context.object(store, Path::from("object")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_users() {
    read_contract(&in_memory(&gpu(|_| {})).await, LEN).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn any_ranges_are_read_as_each_by_itself(
        ranges in any_ranges(LEN, 150_000, 40),
        part_size in prop_oneof![Just(None), (20_000..200_000u64).prop_map(Some)],
    ) {
        tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
            let content = pattern(LEN);
            for context in [host(|settings| settings.part_size = part_size), gpu(|settings| settings.part_size = part_size)] {
                let (honest, whole) = (honest().await, without_ranges().await);
                let sources = [
                    by_http(&context, &honest).unwrap(),
                    by_s3(&context, &honest).unwrap(),
                    in_memory(&context).await,
                ];
                for source in sources {
                    ranges_contract(&source, source.device(), &ranges, &content).await;
                }
                // Every range is the whole object again.
                let few = &ranges[..ranges.len().min(4)];
                let source = by_http(&context, &whole).unwrap();
                ranges_contract(&source, source.device(), few, &content).await;
            }
        });
    }
}
