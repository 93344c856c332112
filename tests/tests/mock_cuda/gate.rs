//! The gate that holds copies back.

use crate::support::{
    Gpu, Pinned, alloc, code, download, fill, query, query_event, read, recorded, stream,
    synchronize, upload, wait,
};

#[test]
fn copies_stand_at_the_gate_until_it_opens() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (one, two) = (stream(), stream());
    let (first, second) = (alloc(100), alloc(100));
    let bytes = Pinned::of(&[7; 100]);
    control.ctl("hold");
    upload(first, bytes.bytes(), one).unwrap();
    let event = recorded(one);
    upload(second, bytes.bytes(), two).unwrap();
    control.ctl("wait held 2");
    assert_eq!(code(query_event(event)), 600);
    assert_eq!(control.counters().copies_in_flight, 2);
    assert_eq!(control.counters().bytes_in_flight, 200);
    control.ctl("release");
    synchronize(one).unwrap();
    synchronize(two).unwrap();
    assert_eq!(read(first, 100), [7; 100]);
    assert_eq!(control.counters().copies_held, 0);
}

#[test]
fn only_copies_are_held() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    control.ctl("hold");
    fill(alloc(100), 1, 100, stream).unwrap();
    synchronize(stream).unwrap();
}

#[test]
fn copies_can_be_let_through_one_by_one() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let pointer = alloc(3);
    let bytes = Pinned::of(&[1, 2, 3]);
    control.ctl("hold");
    let events: Vec<_> = (0..3)
        .map(|index| {
            upload(
                pointer + index as u64,
                &bytes.bytes()[index..=index],
                stream,
            )
            .unwrap();
            recorded(stream)
        })
        .collect();
    for done in 0..3 {
        control.ctl("wait held 1");
        let reached = |event: &&_| code(query_event(**event)) == 0;
        assert_eq!(events.iter().filter(reached).count(), done);
        control.ctl("release 1");
        crate::support::synchronize_event(events[done]).unwrap();
    }
    control.ctl("release");
    assert_eq!(read(pointer, 3), [1, 2, 3]);
}

#[test]
fn what_waits_for_a_held_copy_is_held_as_well() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (one, two) = (stream(), stream());
    let pointer = alloc(100);
    let bytes = Pinned::of(&[7; 100]);
    control.ctl("hold");
    upload(pointer, bytes.bytes(), one).unwrap();
    wait(two, recorded(one)).unwrap();
    fill(pointer, 8, 50, two).unwrap();
    control.ctl("wait held 1");
    assert_eq!(code(query(two)), 600);
    control.ctl("release");
    synchronize(two).unwrap();
    let found = read(pointer, 100);
    assert_eq!((found[49], found[50]), (8, 7));
}

#[test]
fn a_broken_context_drops_what_is_held() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let pointer = alloc(100);
    let mut bytes = Pinned::of(&[7; 100]);
    control.ctl("hold");
    download(bytes.bytes_mut(), pointer, stream).unwrap();
    control.ctl("wait held 1; sticky 0 700; wait idle");
    assert_eq!(code(synchronize(stream)), 700);
    assert_eq!(bytes.bytes(), [7; 100]);
}

#[test]
fn the_most_in_flight_is_remembered() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let pointer = alloc(1000);
    let bytes = Pinned::new(1000);
    control.ctl("hold");
    for _ in 0..5 {
        upload(pointer, bytes.bytes(), stream).unwrap();
    }
    control.ctl("release; wait idle");
    let counters = control.counters();
    assert_eq!(counters.max_bytes_in_flight, 5000);
    assert_eq!(counters.max_copies_in_flight, 5);
    assert_eq!((counters.bytes_in_flight, counters.bytes_copied), (0, 5000));
}
