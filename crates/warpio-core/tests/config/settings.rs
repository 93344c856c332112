//! Where a setting's value comes from, and what is said about a wrong one.

use std::time::Duration;

use warpio_core::ErrorKind;
use warpio_core::config::{
    CompatMode, Config, CuFileApi, DeviceSpec, DirectIo, EngineChoice, MachineDefaults, Origin, Switch,
};

const MIB: u64 = 1 << 20;

fn config() -> Config {
    Config::new(MachineDefaults { threads: 6, staging_budget: 100 * MIB })
}

fn apply(config: &mut Config, variables: &[(&str, &str)]) -> warpio_core::Result<()> {
    config.apply_environment(variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())))
}

/// What is said about one wrong variable.
fn complaint(name: &str, value: &str) -> String {
    let mut config = config();
    let error = match apply(&mut config, &[(name, value)]) {
        Ok(()) => config.validate().expect_err("the value is wrong"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    error.to_string()
}

#[test]
fn defaults_come_from_the_machine_and_are_valid() {
    let config = config();
    assert_eq!((*config.threads.get(), *config.staging_budget.get()), (6, 100 * MIB));
    assert_eq!(*config.device.get(), DeviceSpec::Auto);
    assert!(config.rows().iter().all(|row| row.origin == Origin::Default));
    config.validate().unwrap();
}

#[test]
fn the_environment_beats_the_defaults() {
    let mut config = config();
    apply(
        &mut config,
        &[
            ("WARPIO_DEVICE", "cuda:1"),
            ("WARPIO_THREADS", " 3 "),
            ("WARPIO_TASK_SIZE", "1MiB"),
            ("WARPIO_SLOT_SIZE", "2MiB"),
            ("WARPIO_STAGING_BUDGET", "64MiB"),
            ("WARPIO_STAGING_WARM", "32MiB"),
            ("WARPIO_ENGINE", "tokio-uring"),
            ("WARPIO_IO_URING", "off"),
            ("WARPIO_DIRECT_READ", "always"),
            ("WARPIO_DIRECT_WRITE", "NEVER"),
            ("WARPIO_LEAVE_CACHE_CLEAN", "On"),
            ("WARPIO_GAP", "64KiB"),
            ("WARPIO_COMPAT_MODE", "OFF"),
            ("WARPIO_GDS_THRESHOLD", "1MiB"),
            ("WARPIO_CUFILE_API", "batch"),
            ("WARPIO_CUFILE_LIBRARY", "/opt/libcufile.so.0"),
            ("WARPIO_HTTP_ATTEMPTS", "3"),
            ("WARPIO_HTTP_STATUSES", "429, 503"),
            ("WARPIO_HTTP_CONNECT_TIMEOUT", "2s"),
            ("WARPIO_HTTP_STALL_TIMEOUT", "500ms"),
            ("WARPIO_HTTP_TOTAL_TIMEOUT", "5m"),
            ("WARPIO_HTTP_CONNECTIONS", "8"),
            ("WARPIO_HTTP_THREADS", "2"),
        ],
    )
    .unwrap();
    config.validate().unwrap();
    assert_eq!((*config.engine.get(), *config.io_uring.get()), (EngineChoice::TokioUring, Switch::Off));
    assert!(*config.leave_cache_clean.get());
    assert_eq!(*config.gap.get(), 64 << 10);
    assert_eq!((*config.compat_mode.get(), *config.cufile_api.get()), (CompatMode::Off, CuFileApi::Batch));
    assert_eq!(*config.gds_threshold.get(), MIB);
    assert_eq!(config.cufile_library.get().as_deref(), Some(std::path::Path::new("/opt/libcufile.so.0")));
    assert_eq!((*config.direct_read.get(), *config.direct_write.get()), (DirectIo::Always, DirectIo::Never));
    assert_eq!(*config.device.get(), DeviceSpec::Cuda(1));
    assert_eq!((*config.threads.get(), *config.task_size.get()), (3, MIB));
    assert_eq!((*config.http.attempts.get(), config.http.statuses.get().as_slice()), (3, &[429, 503][..]));
    assert_eq!(*config.http.stall_timeout.get(), Duration::from_millis(500));
    assert_eq!(
        (*config.http.total_timeout.get(), *config.http.threads.get()),
        (Some(Duration::from_secs(300)), Some(2))
    );
    assert!(config.rows().iter().all(|row| row.origin == Origin::Environment));
    let pool = config.pool();
    assert_eq!((pool.slot_len as u64, pool.budget as u64), (2 * MIB, 64 * MIB));
}

#[test]
fn a_better_default_replaces_only_what_nobody_has_set() {
    let mut config = config();
    config.threads.set_default(9);
    assert_eq!((*config.threads.get(), config.threads.origin()), (9, Origin::Default));
    apply(&mut config, &[("WARPIO_THREADS", "3")]).unwrap();
    config.threads.set_default(9);
    assert_eq!((*config.threads.get(), config.threads.origin()), (3, Origin::Environment));
}

#[test]
fn the_program_beats_the_environment_whenever_it_speaks() {
    let mut config = config();
    config.threads.set(2);
    apply(&mut config, &[("WARPIO_THREADS", "3"), ("WARPIO_TASK_SIZE", "1MiB")]).unwrap();
    config.task_size.set(2 * MIB);
    assert_eq!((*config.threads.get(), config.threads.origin()), (2, Origin::Program));
    assert_eq!((*config.task_size.get(), config.task_size.origin()), (2 * MIB, Origin::Program));
}

#[test]
fn a_wrong_variable_is_an_error_though_the_program_overrides_it() {
    let mut config = config();
    config.threads.set(2);
    assert!(apply(&mut config, &[("WARPIO_THREADS", "many")]).is_err());
}

#[test]
fn a_misspelt_variable_is_named_and_the_right_ones_listed() {
    let text = complaint("WARPIO_THREDS", "3");
    assert!(text.contains("WARPIO_THREDS") && text.contains("WARPIO_THREADS"), "{text}");
    let text = complaint("WARPIO_", "3");
    assert!(text.contains("no such setting"), "{text}");
}

#[test]
fn a_value_that_cannot_be_read_is_shown_with_its_variable() {
    for (name, value) in [
        ("WARPIO_DEVICE", "gpu"),
        ("WARPIO_DEVICE", "cuda:+1"),
        ("WARPIO_THREADS", "many"),
        ("WARPIO_THREADS", "-1"),
        ("WARPIO_THREADS", "+1"),
        ("WARPIO_THREADS", "1.5"),
        ("WARPIO_THREADS", ""),
        ("WARPIO_TASK_SIZE", "big"),
        ("WARPIO_SLOT_SIZE", "4 MiBit"),
        ("WARPIO_STAGING_BUDGET", "99999999999TiB"),
        ("WARPIO_HTTP_STATUSES", "503;504"),
        ("WARPIO_HTTP_STATUSES", "429,+503"),
        ("WARPIO_HTTP_STALL_TIMEOUT", "30"),
        ("WARPIO_HTTP_THREADS", "few"),
    ] {
        let text = complaint(name, value);
        assert!(text.contains(&format!("{name}={value}")), "{text}");
    }
}

#[test]
fn a_value_out_of_range_is_named_with_what_would_be_right() {
    for (name, value, want) in [
        ("WARPIO_THREADS", "0", "between 1 and 1024"),
        ("WARPIO_THREADS", "1025", "between 1 and 1024"),
        ("WARPIO_TASK_SIZE", "0", "between 4KiB and 1GiB"),
        ("WARPIO_TASK_SIZE", "4095", "between 4KiB and 1GiB"),
        ("WARPIO_TASK_SIZE", "5000", "a multiple of 4KiB"),
        ("WARPIO_TASK_SIZE", "2GiB", "between 4KiB and 1GiB"),
        ("WARPIO_SLOT_SIZE", "4KiB", "between 64KiB and 1GiB"),
        ("WARPIO_SLOT_SIZE", "65KB", "a multiple of 4KiB"),
        ("WARPIO_SLOT_SIZE", "2GiB", "between 64KiB and 1GiB"),
        ("WARPIO_STAGING_BUDGET", "1MiB", "too small"),
        ("WARPIO_STAGING_BUDGET", "0", "too small"),
        ("WARPIO_SLOT_SIZE", "1GiB", "too small"),
        ("WARPIO_HTTP_ATTEMPTS", "0", "between 1 and 1000"),
        ("WARPIO_HTTP_STATUSES", "200", "between 400 and 599"),
        ("WARPIO_HTTP_CONNECT_TIMEOUT", "0s", "longer than nothing"),
        ("WARPIO_HTTP_STALL_TIMEOUT", "0ms", "longer than nothing"),
        ("WARPIO_HTTP_TOTAL_TIMEOUT", "0s", "or none"),
        ("WARPIO_HTTP_CONNECTIONS", "0", "between 1 and 1024"),
        ("WARPIO_HTTP_THREADS", "0", "or auto"),
    ] {
        let text = complaint(name, value);
        assert!(text.contains("WARPIO_") && text.contains(want), "{name}={value}: {text}");
    }
}

#[test]
fn variables_of_tests_and_of_others_are_no_settings() {
    let mut config = config();
    let before = config.clone();
    apply(&mut config, &[("WARPIO_TEST_CUDA", "real"), ("PATH", "/bin"), ("KVIKIO_NTHREADS", "x"), ("warpio_x", "")])
        .unwrap();
    assert_eq!(config, before);
}

#[test]
fn rows_show_values_as_the_environment_takes_them() {
    let mut written = config();
    written.device.set(DeviceSpec::Cuda(3));
    written.slot_size.set(3 * MIB);
    let mut read = config();
    for row in written.rows() {
        apply(&mut read, &[(row.key.variable, &row.value)]).unwrap();
    }
    let values = |config: &Config| config.rows().into_iter().map(|row| row.value).collect::<Vec<_>>();
    assert_eq!(values(&read), values(&written));
}

#[test]
fn every_key_is_documented_once() {
    let rows = config().rows();
    for row in &rows {
        assert_eq!(row.key.variable, format!("WARPIO_{}", row.key.name.to_uppercase()));
        assert!(row.key.reason.len() > 10, "{} gives no reason", row.key.name);
        assert_eq!(rows.iter().filter(|other| other.key.name == row.key.name).count(), 1);
    }
}

#[test]
fn more_staging_memory_at_the_start_than_the_budget_is_an_error() {
    let mut config = config();
    apply(&mut config, &[("WARPIO_STAGING_BUDGET", "64MiB"), ("WARPIO_STAGING_WARM", "65MiB")]).unwrap();
    let text = config.validate().unwrap_err().to_string();
    assert!(text.contains("WARPIO_STAGING_WARM") && text.contains("65MiB"), "{text}");
}
