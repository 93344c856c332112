//! Which pages of a range are cached.

use std::ops::Range;

/// How much of a range is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coverage {
    /// All of it.
    Full,
    /// Some pages of it.
    Partial,
    /// None of it.
    Absent,
}

/// Pages next to each other that are all cached, or all not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Where in the file.
    pub range: Range<u64>,
    /// Whether they are cached.
    pub cached: bool,
}

/// Which pages of a file's range were cached at the moment it was made; a bit a page.
///
/// ```
/// use warpio_local::page_cache::{Coverage, PageMap};
/// let map = PageMap::new(0..10_000, 4096, [true, true, false]);
/// assert_eq!(map.coverage(100..8192), Coverage::Full);
/// assert_eq!(map.coverage(8000..9000), Coverage::Partial);
/// assert_eq!(map.cached_bytes(0..10_000), 8192);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PageMap {
    range: Range<u64>,
    page_size: u64,
    words: Vec<u64>,
}

impl PageMap {
    /// Takes, in order, whether each page that `range` touches is cached. Pages that are not named count as not
    /// cached, those past the end are ignored.
    ///
    /// # Panics
    /// If `page_size` is zero.
    pub fn new(range: Range<u64>, page_size: usize, pages: impl IntoIterator<Item = bool>) -> Self {
        let mut map = Self::empty(range, page_size);
        let total = map.total_pages();
        for (page, cached) in (0..total).zip(pages) {
            map.set(page, cached);
        }
        map
    }

    /// A map whose every page is not cached.
    pub(crate) fn empty(range: Range<u64>, page_size: usize) -> Self {
        assert!(page_size > 0, "a page has a size");
        let mut map = Self { range, page_size: page_size as u64, words: Vec::new() };
        map.words = vec![0; map.total_pages().div_ceil(64) as usize];
        map
    }

    pub(crate) fn set(&mut self, page: u64, cached: bool) {
        if cached {
            self.words[(page / 64) as usize] |= 1 << (page % 64);
        }
    }

    /// The range that was asked about, less what lay past the end of the file.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// How many pages it touches.
    pub fn total_pages(&self) -> u64 {
        super::pages_touched(&self.range, self.page_size)
    }

    /// How many of them are cached.
    pub fn cached_pages(&self) -> u64 {
        self.words.iter().map(|w| u64::from(w.count_ones())).sum()
    }

    /// How many bytes of `range` are cached. What lies outside of the map is not.
    pub fn cached_bytes(&self, range: Range<u64>) -> u64 {
        self.runs_in(range).filter(|r| r.cached).map(|r| r.range.end - r.range.start).sum()
    }

    /// How much of `range` is cached. What lies outside of the map is not; an empty range is [`Coverage::Full`].
    pub fn coverage(&self, range: Range<u64>) -> Coverage {
        let len = range.end.saturating_sub(range.start);
        match self.cached_bytes(range) {
            n if n == len => Coverage::Full,
            0 => Coverage::Absent,
            _ => Coverage::Partial,
        }
    }

    /// The map as ranges, alternately cached and not.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        self.runs_in(self.range())
    }

    /// As [`PageMap::runs`], of the part of the map that lies in `range`.
    pub fn runs_in(&self, range: Range<u64>) -> impl Iterator<Item = Run> {
        let end = range.end.min(self.range.end);
        let mut at = range.start.max(self.range.start);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let page = self.page_of(at);
            let cached = self.is_cached(page);
            let stop = self.next_change(page, cached).min(end);
            let run = Run { range: at..stop, cached };
            at = stop;
            Some(run)
        })
    }

    /// The number, in the map, of the page that holds this offset.
    fn page_of(&self, offset: u64) -> u64 {
        offset / self.page_size - self.range.start / self.page_size
    }

    fn is_cached(&self, page: u64) -> bool {
        self.words[(page / 64) as usize] >> (page % 64) & 1 != 0
    }

    /// The offset at which the first page after `page` begins that is not as it is; past the map if there is none.
    fn next_change(&self, page: u64, cached: bool) -> u64 {
        let mut next = page + 1;
        while next < self.total_pages() {
            // Ones where a page differs, the next page first.
            let word = self.words[(next / 64) as usize];
            let differs = (if cached { !word } else { word }) >> (next % 64);
            if differs != 0 {
                next += u64::from(differs.trailing_zeros());
                break;
            }
            next = (next / 64 + 1) * 64;
        }
        (self.range.start / self.page_size + next).saturating_mul(self.page_size)
    }
}

impl std::fmt::Debug for PageMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageMap")
            .field("range", &self.range)
            .field("page_size", &self.page_size)
            .field("cached_pages", &self.cached_pages())
            .field("total_pages", &self.total_pages())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_are_clipped_to_the_range_not_to_its_pages() {
        let map = PageMap::new(100..9000, 4096, [false, true, false]);
        let runs: Vec<_> = map.runs().map(|r| (r.range, r.cached)).collect();
        assert_eq!(runs, [(100..4096, false), (4096..8192, true), (8192..9000, false)]);
        assert_eq!((map.cached_pages(), map.total_pages()), (1, 3));
    }

    #[test]
    fn a_range_that_starts_inside_a_later_page_counts_from_that_page() {
        let map = PageMap::new(5000..13_000, 4096, [true, false, true]);
        assert_eq!(map.coverage(5000..8192), Coverage::Full);
        assert_eq!(map.coverage(8192..12_288), Coverage::Absent);
        assert_eq!(map.coverage(12_288..13_000), Coverage::Full);
        assert_eq!(map.coverage(5000..13_000), Coverage::Partial);
    }

    #[test]
    fn what_is_outside_of_the_map_is_not_cached() {
        let map = PageMap::new(4096..8192, 4096, [true]);
        assert_eq!(map.coverage(0..4096), Coverage::Absent);
        assert_eq!(map.coverage(0..8192), Coverage::Partial);
        assert_eq!(map.coverage(4096..8193), Coverage::Partial);
        assert_eq!(map.coverage(10_000..20_000), Coverage::Absent);
    }

    #[test]
    fn an_empty_range_is_covered_and_has_no_pages() {
        let map = PageMap::new(4096..4096, 4096, [true]);
        assert_eq!((map.total_pages(), map.cached_pages(), map.runs().count()), (0, 0, 0));
        assert_eq!(map.coverage(4096..4096), Coverage::Full);
    }

    #[test]
    fn pages_left_unnamed_are_not_cached() {
        let map = PageMap::new(0..4 * 4096, 4096, [true]);
        assert_eq!((map.cached_pages(), map.total_pages()), (1, 4));
    }

    proptest! {
        /// Against the plain reading: a flag a byte.
        #[test]
        fn bytes_runs_and_coverage_agree_with_a_flag_a_byte(
            start in 0u64..600, len in 0u64..4000, page in 1usize..40,
            flags in prop::collection::vec(any::<bool>(), 1..9), from in 0u64..5000, size in 0u64..5000,
        ) {
            let range = start..start + len;
            let pages = flags.iter().copied().cycle();
            let map = PageMap::new(range.clone(), page, pages);
            let flag = |at: u64| {
                let page = page as u64;
                range.contains(&at) && flags[((at / page - start / page) % flags.len() as u64) as usize]
            };
            let wanted = from..from + size;
            let cached = wanted.clone().filter(|at| flag(*at)).count() as u64;
            prop_assert_eq!(map.cached_bytes(wanted.clone()), cached);
            let coverage = map.coverage(wanted);
            prop_assert_eq!(coverage == Coverage::Full, cached == size);
            prop_assert_eq!(coverage == Coverage::Absent, cached == 0 && size > 0);

            let mut at = range.start;
            let mut last = None;
            for run in map.runs() {
                prop_assert_eq!(run.range.start, at);
                prop_assert!(run.range.start < run.range.end);
                prop_assert!(last != Some(run.cached), "neighbours are one run");
                prop_assert!(run.range.clone().all(|b| flag(b) == run.cached));
                (at, last) = (run.range.end, Some(run.cached));
            }
            prop_assert_eq!(at, range.end.max(range.start));
        }

        #[test]
        fn long_runs_cross_words(cached in 0u64..300, total in 300u64..600) {
            let map = PageMap::new(0..total, 1, (0..total).map(|p| p < cached));
            let runs: Vec<_> = map.runs().collect();
            prop_assert_eq!(runs.len(), 1 + usize::from(cached > 0));
            prop_assert_eq!(runs[runs.len() - 1].range.clone(), cached..total);
        }
    }
}
