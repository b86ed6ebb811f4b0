//! CPython's own sequences.

use crate::{json, numbers};
use serde_json::Value;
use wgpu_bert::data::PythonRandom;

#[test]
fn first_values_of_seed_12345() {
    let mut rng = PythonRandom::new(12345);
    assert_eq!([(); 4].map(|()| rng.next_u32()), [1789368711, 3146859322, 43676229, 3522623596]);
    let mut rng = PythonRandom::new(12345);
    assert_eq!(
        [(); 3].map(|()| rng.random()),
        [0.41661987254534116, 0.010169169457068361, 0.8252065092537432]
    );
    let mut rng = PythonRandom::new(12345);
    assert_eq!([(); 6].map(|()| rng.randint(2, 125)), [55, 95, 3, 106, 107, 104]);
    let mut items: Vec<u32> = (0..10).collect();
    PythonRandom::new(12345).shuffle(&mut items);
    assert_eq!(items, [8, 7, 3, 5, 1, 2, 9, 4, 0, 6]);
    let (mut rng, range) = (PythonRandom::new(12345), Vec::from_iter(0..30522u32));
    assert_eq!([(); 5].map(|()| rng.choice(&range)), [13651, 24008, 333, 26875, 27040]);
}

/// Every kind of call, in turn, on one generator per seed, seeds beyond 32 bits among them.
#[test]
fn mixed_calls() {
    let golden = json("python_random.json");
    let seeds = golden["seeds"].as_array().unwrap();
    assert_eq!(seeds.len(), 7);
    for expected in seeds {
        let seed = expected["seed"].as_u64().unwrap();
        let mut rng = PythonRandom::new(seed);
        for x in expected["random"].as_array().unwrap() {
            assert_eq!(rng.random(), float(x), "seed {seed}");
        }
        for (name, low, high) in [("randint_1_6", 1, 6), ("randint_2_61", 2, 61), ("randint_0_0", 0, 0)] {
            for x in numbers(&expected[name]) {
                assert_eq!(rng.randint(low, high) as u32, x, "seed {seed}, {name}");
            }
        }
        let range = Vec::from_iter(0..997u32);
        for x in numbers(&expected["choice_of_997"]) {
            assert_eq!(rng.choice(&range), x, "seed {seed}");
        }
        for n in [25u32, 2] {
            let mut items = Vec::from_iter(0..n);
            rng.shuffle(&mut items);
            assert_eq!(items, numbers(&expected[format!("shuffle_{n}")]), "seed {seed}");
        }
        assert_eq!(rng.random(), float(&expected["random_after"]), "seed {seed}");
        for bits in [10, 32] {
            for x in numbers(&expected[format!("getrandbits_{bits}")]) {
                assert_eq!(rng.next_u32() >> (32 - bits), x, "seed {seed}");
            }
        }
    }
}

/// A float in C99 hexadecimal: `0x1.` 13 digits `p` exponent.
fn float(value: &Value) -> f64 {
    let text = value.as_str().unwrap().strip_prefix("0x").unwrap();
    let (mantissa, exponent) = text.split_once('p').unwrap();
    let (whole, fraction) = mantissa.split_once('.').unwrap();
    let digits = u64::from_str_radix(&format!("{whole}{fraction}"), 16).unwrap();
    digits as f64 * 2f64.powi(exponent.parse::<i32>().unwrap() - 4 * fraction.len() as i32)
}
