use crate::{Error, ErrorKind, Result};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// How much staging memory a device may use, and in what pieces. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// All slots together never exceed this. Default 256 MiB: twenty-four slots of 4 MiB keep a PCIe 5 x16 link busy
    /// (`docs/results.md`), the rest is head room for remote reads.
    pub budget: usize,
    /// The size of a slot for large transfers. Default 4 MiB: smaller ones halve the copy rate, larger ones fall out
    /// of the processor's caches.
    pub slot_len: usize,
    /// The size of a slot for small transfers, which never wait behind large ones. Default 64 KiB.
    pub small_slot_len: usize,
    /// How much is allocated at a time when the pool grows. Default 32 MiB: registering memory with a driver costs
    /// about the same for one slot as for eight.
    pub slab_len: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self { budget: 256 * MIB, slot_len: 4 * MIB, small_slot_len: 64 * KIB, slab_len: 32 * MIB }
    }
}

impl PoolConfig {
    /// The part of the budget that is kept for small slots.
    pub(super) fn small_budget(&self) -> usize {
        (self.budget / 16).max(self.small_slot_len).min(self.budget)
    }

    /// Checks that the values go together.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidConfig`], naming the value.
    pub fn validate(&self) -> Result<()> {
        let fail = |message: String| Err(Error::new(ErrorKind::InvalidConfig).with_message(message));
        for (name, value) in [("slot size", self.slot_len), ("small slot size", self.small_slot_len)] {
            if value < 4 * KIB || !value.is_multiple_of(4 * KIB) {
                return fail(format!("the {name} must be a multiple of 4 KiB, not {value} bytes"));
            }
        }
        if self.small_slot_len > self.slot_len {
            return fail(format!(
                "the small slot size ({} bytes) must not exceed the slot size ({} bytes)",
                self.small_slot_len, self.slot_len
            ));
        }
        let least = self.small_budget().saturating_add(self.slot_len);
        if self.budget < least {
            return fail(format!(
                "the staging budget of {} bytes is too small for slots of {} bytes: at least {least} bytes are needed",
                self.budget, self.slot_len
            ));
        }
        Ok(())
    }
}
