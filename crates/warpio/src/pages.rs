//! The pages that people read: their examples are compiled, and run unless they say otherwise, with the documentation
//! tests of this crate. They run in its folder.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../docs/guide/getting-started.md")]
struct GettingStarted;

#[doc = include_str!("../../../docs/guide/local-files.md")]
struct LocalFiles;

#[cfg(feature = "remote")]
#[doc = include_str!("../../../docs/guide/remote.md")]
struct Remote;
#[doc = include_str!("../../../docs/guide/small-reads-and-maps.md")]
struct SmallReadsAndMaps;

#[cfg(feature = "cuda")]
#[doc = include_str!("../../../docs/guide/gpu.md")]
struct Gpu;

#[cfg(feature = "cufile")]
#[doc = include_str!("../../../docs/guide/gds.md")]
struct Gds;

#[doc = include_str!("../../../docs/guide/configuration.md")]
struct Configuration;

#[doc = include_str!("../../../docs/guide/errors.md")]
struct Errors;

#[doc = include_str!("../../../docs/guide/writing-a-source.md")]
struct WritingASource;
