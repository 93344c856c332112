//! The contract that all sources share.

use warpio_core::testing::read_contract;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_users() {
    use std::sync::Arc;
    use warpio_remote::object_store::{ObjectStoreExt, memory::InMemory, path::Path};

    let store = Arc::new(InMemory::new());
    store.put(&Path::from("object"), pattern(LEN).into()).await.unwrap();
    read_contract(&gpu(|_| {}).object(store, Path::from("object")).unwrap(), LEN).await;
}
