use std::ffi::c_void;

/// What is in flight, found by the cookies that events bring back. A cookie is never given out twice in a row for one
/// place, so that an event that comes twice is noticed.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    round: u32,
    entry: Option<T>,
}

impl<T> Slab<T> {
    pub(super) fn new(depth: usize) -> Self {
        let places = (0..depth).map(|_| Place { round: 0, entry: None }).collect();
        Self { places, free: (0..depth as u32).rev().collect() }
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Keeps an entry, if there is a place.
    pub(super) fn insert(&mut self, entry: T) -> Result<u64, T> {
        let Some(at) = self.free.pop() else { return Err(entry) };
        let place = &mut self.places[at as usize];
        // A cookie of zero would look like none.
        place.round = place.round.wrapping_add(1).max(1);
        place.entry = Some(entry);
        Ok(u64::from(place.round) << 32 | u64::from(at))
    }

    fn place(&mut self, cookie: u64) -> Option<(u32, &mut Place<T>)> {
        let (round, at) = ((cookie >> 32) as u32, cookie as u32);
        let place = self.places.get_mut(at as usize)?;
        (place.round == round).then_some((at, place))
    }

    pub(super) fn get(&mut self, cookie: u64) -> Option<&mut T> {
        self.place(cookie)?.1.entry.as_mut()
    }

    /// Takes an entry out; `None` for a cookie that is not, or no longer, in flight.
    pub(super) fn remove(&mut self, cookie: u64) -> Option<T> {
        let (at, place) = self.place(cookie)?;
        let entry = place.entry.take()?;
        self.free.push(at);
        Some(entry)
    }

    /// Takes everything out.
    pub(super) fn drain(&mut self) -> Vec<T> {
        let mut entries = Vec::new();
        for (at, place) in self.places.iter_mut().enumerate() {
            if let Some(entry) = place.entry.take() {
                self.free.push(at as u32);
                entries.push(entry);
            }
        }
        entries
    }
}

/// A cookie as the library carries it.
pub(super) fn to_pointer(cookie: u64) -> *mut c_void {
    cookie as usize as *mut c_void
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_run_out_and_come_back() {
        let mut slab = Slab::new(2);
        let (a, b) = (slab.insert('a').unwrap(), slab.insert('b').unwrap());
        assert_eq!((slab.insert('c'), slab.free(), slab.len()), (Err('c'), 0, 2));
        assert_eq!((slab.remove(a), slab.remove(b)), (Some('a'), Some('b')));
        assert_eq!(slab.free(), 2);
    }

    #[test]
    fn an_event_that_comes_twice_finds_nothing() {
        let mut slab = Slab::new(1);
        let first = slab.insert(1).unwrap();
        slab.remove(first).unwrap();
        let second = slab.insert(2).unwrap();
        assert_ne!(first, second);
        assert_eq!((slab.remove(first), slab.get(second)), (None, Some(&mut 2)));
        assert_eq!((slab.remove(0), slab.remove(u64::MAX)), (None, None));
    }

    #[test]
    fn what_is_drained_is_not_in_flight() {
        let mut slab = Slab::new(3);
        let cookie = slab.insert('a').unwrap();
        slab.insert('b').unwrap();
        assert_eq!(slab.drain(), ['a', 'b']);
        assert_eq!((slab.free(), slab.remove(cookie)), (3, None));
    }
}
