//! CPython's `random.Random`, bit for bit: the reference draws its training data from it, so equal seeds give equal
//! data only with the same generator and the same way of using its bits.
//!
//! ```
//! use wgpu_bert::data::PythonRandom;
//! let mut rng = PythonRandom::new(12345);
//! assert_eq!(rng.random(), 0.41661987254534116);
//! ```

const N: usize = 624;
const M: usize = 397;

/// The Mersenne Twister MT19937, seeded and read as CPython does it.
///
/// Algorithm: Matsumoto and Nishimura, "Mersenne Twister" (1998), with `init_by_array` of their 2002 revision.
#[derive(Clone)]
pub struct PythonRandom {
    state: [u32; N],
    next: usize,
}

impl PythonRandom {
    /// `random.Random(seed)`: the seed's 32-bit words, low word first, are the key of `init_by_array`.
    pub fn new(seed: u64) -> Self {
        let words = [seed as u32, (seed >> 32) as u32];
        let key = if words[1] == 0 { &words[..1] } else { &words[..] };

        let mut state = [0u32; N];
        state[0] = 19650218;
        for i in 1..N {
            state[i] = mix(state[i - 1]).wrapping_mul(1812433253).wrapping_add(i as u32);
        }
        let (mut i, mut j) = (1, 0);
        for _ in 0..N {
            state[i] = (state[i] ^ mix(state[i - 1]).wrapping_mul(1664525))
                .wrapping_add(key[j])
                .wrapping_add(j as u32);
            i = step(&mut state, i);
            j = (j + 1) % key.len();
        }
        for _ in 0..N - 1 {
            state[i] = (state[i] ^ mix(state[i - 1]).wrapping_mul(1566083941)).wrapping_sub(i as u32);
            i = step(&mut state, i);
        }
        state[0] = 0x8000_0000;
        Self { state, next: N }
    }

    /// The next raw 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.next == N {
            self.refill();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn refill(&mut self) {
        for i in 0..N {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
            let twist = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ twist;
        }
        self.next = 0;
    }

    /// `random()`: uniform in [0, 1) with 53 bits.
    pub fn random(&mut self) -> f64 {
        let high = f64::from(self.next_u32() >> 5);
        let low = f64::from(self.next_u32() >> 6);
        (high * 67108864.0 + low) / 9007199254740992.0
    }

    /// A uniform whole number in `0..n`, as `choice` and `shuffle` draw it: as many bits as `n` has, until they are
    /// below `n` (even for n = 1). `n` is at least 1 and below 2³².
    pub fn below(&mut self, n: usize) -> usize {
        debug_assert!(n > 0 && n <= u32::MAX as usize);
        let bits = usize::BITS - n.leading_zeros();
        loop {
            let x = (self.next_u32() >> (32 - bits)) as usize;
            if x < n {
                return x;
            }
        }
    }

    /// `randint(low, high)`: uniform, both ends included; `low` is at most `high`.
    pub fn randint(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// `choice(items)`; `items` is not empty.
    pub fn choice<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// `shuffle(items)`, in place.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

fn mix(x: u32) -> u32 {
    x ^ (x >> 30)
}

/// Advances the index of `init_by_array`; at the end the last word wraps round to the front.
fn step(state: &mut [u32; N], i: usize) -> usize {
    if i + 1 < N {
        return i + 1;
    }
    state[0] = state[N - 1];
    1
}
