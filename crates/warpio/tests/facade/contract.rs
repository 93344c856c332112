//! The contract suites through the runtime: with host memory and a GPU, each engine, through the page cache and past
//! it.

use warpio::core::testing::{failed_write_contract, pattern, read_contract, write_contract};

use crate::support::{MIB, Scratch, for_each_runtime, names};

const LEN: usize = MIB + 777;

#[tokio::test]
async fn sources_keep_the_contract() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("data.bin", LEN);
    for_each_runtime(async |rt| read_contract(&rt.open(&path).await.unwrap(), LEN).await).await;
}

#[tokio::test]
async fn files_keep_the_contract() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("data.bin");
    for_each_runtime(async |rt| {
        let open = || rt.open_options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = open().await.unwrap();
        write_contract(&file, || async { std::fs::read(&path).unwrap() }).await;
        file.close().await.unwrap();
        failed_write_contract(&open().await.unwrap()).await;
    })
    .await;
}

#[tokio::test]
async fn sinks_keep_the_contract() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("data.bin");
    for_each_runtime(async |rt| {
        let sink = rt.create(&path).await.unwrap();
        let temporary = || names(scratch.dir()).into_iter().find(|name| name != "data.bin");
        let content = async || std::fs::read(temporary().map_or(path.clone(), |name| scratch.path(&name))).unwrap();
        write_contract(&sink, content).await;
        assert_eq!(names(scratch.dir()), ["data.bin"]);
        assert!(std::fs::read(&path).unwrap() == pattern(300_007));
        std::fs::remove_file(&path).unwrap();
        failed_write_contract(&rt.create(&path).await.unwrap()).await;
        assert_eq!(names(scratch.dir()), [""; 0]);
    })
    .await;
}
