//! Dropout: the mask's statistics, its independence of everything but its key, and the same mask in the backward.

use wgpu_bert::gpu::Tensor;
use wgpu_bert::ops::{
    Dropout, DropoutMask, LayerNorm, Residual, Scalar, Softmax, Tokens, dropout, layer_norm, softmax,
};

use crate::harness::{Bench, Device, FAMILIES, Random, WHOLE, assert_close, device, pcg4d, read};

/// What dropout makes of `x`.
fn run(device: &Device, x: &[f32], rate: f32, site: u32, key: [u32; 2]) -> Vec<f32> {
    run_part(device, x, rate, site, key, 0)
}

/// What it makes of a part of something larger.
fn run_part(device: &Device, x: &[f32], rate: f32, site: u32, key: [u32; 2], part: u32) -> Vec<f32> {
    let mut bench = Bench::new(device);
    let words = bench.words("keys", &[1, key[0], 2, key[1], part]);
    let [a, b, part] = [1, 3, 4].map(|word| Scalar { tensor: words, word });
    let (tx, y) = (bench.input("x", x), bench.output("y", x.len()));
    let mask = DropoutMask { rate, site, key: [a, b], part, tokens: WHOLE };
    let args = Dropout { x: tx, y, width: 1, mask };
    dropout(&mut bench.plan, args);
    let program = bench.run(device);
    read(device, &program, args.y)
}

/// Which of `len` elements are kept.
fn mask(device: &Device, len: usize, rate: f32, site: u32, key: [u32; 2]) -> Vec<bool> {
    run(device, &vec![1.0; len], rate, site, key).iter().map(|v| *v != 0.0).collect()
}

/// Is a share of `n` trials within 5 standard deviations of its probability?
#[track_caller]
fn assert_share(what: &str, hits: usize, n: usize, probability: f64) {
    let share = hits as f64 / n as f64;
    let deviation = (probability * (1.0 - probability) / n as f64).sqrt();
    assert!((share - probability).abs() <= 5.0 * deviation, "{what}: {share}, expected {probability}");
}

const LEN: usize = 100_003;

#[test]
fn keeps_the_right_share_and_the_mean() {
    for family in FAMILIES {
        let device = device(family);
        for rate in [0.0, 0.1, 0.5, 0.9] {
            let y = run(&device, &vec![3.0; LEN], rate, 4, [5, 6]);
            let kept = y.iter().filter(|v| **v != 0.0).count();
            assert_share(&format!("rate {rate}"), kept, LEN, 1.0 - f64::from(rate));
            let scaled = 3.0 / (1.0 - f64::from(rate));
            let want: Vec<f64> = y.iter().map(|v| if *v == 0.0 { 0.0 } else { scaled }).collect();
            assert_close(&format!("rate {rate}"), &y, &want, 3e-7);
            // Each of the four words of a hash, and neighbours in the same and in the next hash.
            for word in 0..4 {
                let kept = y.iter().skip(word).step_by(4).filter(|v| **v != 0.0).count();
                let n = (LEN - word).div_ceil(4);
                assert_share(&format!("rate {rate}, word {word}"), kept, n, 1.0 - f64::from(rate));
            }
            for distance in [1, 2, 3, 4, 64, 256, 1024] {
                let both = (distance..LEN).filter(|i| y[*i] != 0.0 && y[i - distance] != 0.0).count();
                let probability = (1.0 - f64::from(rate)).powi(2);
                assert_share(&format!("rate {rate}, {distance} apart"), both, LEN - distance, probability);
            }
        }
    }
}

#[test]
fn masks_of_different_keys_are_independent() {
    let device = device(FAMILIES[0]);
    for rate in [0.1, 0.5] {
        // Neighbouring sites, steps and keys, and a key exchanged for the other.
        let keys =
            [(0, [0, 0]), (1, [0, 0]), (2, [0, 0]), (0, [1, 0]), (0, [0, 1]), (1, [1, 0]), (0, [7, 9])];
        let keys = keys.into_iter().chain([(0, [9, 7]), (1000, [0, 0]), (0, [1 << 31, 0])]);
        let masks: Vec<_> = keys.map(|(site, key)| mask(&device, LEN, rate, site, key)).collect();
        for (i, a) in masks.iter().enumerate() {
            for (j, b) in masks.iter().enumerate().skip(i + 1) {
                let agree = a.iter().zip(b).filter(|(a, b)| a == b).count();
                let rate = f64::from(rate);
                let expected = rate * rate + (1.0 - rate) * (1.0 - rate);
                assert_share(&format!("masks {i} and {j}, rate {rate}"), agree, LEN, expected);
            }
        }
    }
}

#[test]
fn the_mask_follows_from_the_key_alone() {
    for family in FAMILIES {
        let device = device(family);
        let (rate, site, key) = (0.25, 3, [0xdead_beef, 41]);
        for len in [1, 2, 5, 255, 1027] {
            let quads = (0..len as u32).map(|i| pcg4d([i / 4, site, key[0], key[1]])[i as usize % 4]);
            let want: Vec<bool> = quads.map(|hash| hash >= 1 << 30).collect();
            assert_eq!(mask(&device, len, rate, site, key), want, "on every adapter, at every run");
        }
    }
}

#[test]
fn the_backward_drops_what_the_forward_dropped() {
    for family in FAMILIES {
        let device = device(family);
        let mut random = Random::new(81);
        let (x, dy) = (random.vec(1000), random.vec(1000));
        let mut bench = Bench::new(&device);
        let words = bench.words("keys", &[17, 18, 1]);
        let [a, b, part] = [0, 1, 2].map(|word| Scalar { tensor: words, word });
        let mask = DropoutMask { rate: 0.5, site: 2, key: [a, b], part, tokens: WHOLE };
        let (tx, y) = (bench.input("x", &x), bench.output("y", 1000));
        let (tdy, dx) = (bench.input("dy", &dy), bench.output("dx", 1000));
        dropout(&mut bench.plan, Dropout { x: tx, y, width: 1, mask });
        dropout(&mut bench.plan, Dropout { x: tdy, y: dx, width: 1, mask });
        let program = bench.run(&device);
        let (y, dx) = (read(&device, &program, y), read(&device, &program, dx));
        for i in 0..1000 {
            let factor = if y[i] == 0.0 { 0.0 } else { 2.0 };
            assert_eq!((y[i], dx[i]), (x[i] * factor, dy[i] * factor));
        }
    }
}

#[test]
fn parts_have_the_masks_of_the_whole() {
    for family in FAMILIES {
        let device = device(family);
        let x = Random::new(5).vec(300);
        let whole = run(&device, &x, 0.3, 1, [8, 9]);
        // Lengths that are multiples of 4, and those that are not.
        for len in [100, 75, 50, 1] {
            let parts = x.chunks(len).take(4).zip(0..);
            let parts = parts.flat_map(|(x, part)| run_part(&device, x, 0.3, 1, [8, 9], part));
            assert_eq!(parts.collect::<Vec<_>>(), whole[..300.min(4 * len)], "parts of {len}");
        }
    }
}

/// Which elements are kept of the second part of a batch, of 3 sequences: of rows as wide as a token by themselves and
/// before a layer norm, and of two heads' attention.
fn kept(device: &Device, tokens: Tokens) -> [Vec<bool>; 3] {
    const WIDTH: usize = 6;
    let (rows, keys) = (3 * tokens.here, tokens.here);
    let mut bench = Bench::new(device);
    let words = bench.words("keys", &[8, 9, 1]);
    let [low, high, part] = [0, 1, 2].map(|word| Scalar { tensor: words, word });
    let mask = DropoutMask { rate: 0.3, site: 4, key: [low, high], part, tokens };
    let x = bench.input("x", &vec![1.0; rows * WIDTH]);
    let y = bench.output("y", rows * WIDTH);
    dropout(&mut bench.plan, Dropout { x, y, width: WIDTH, mask });

    let sum = bench.output("sum", rows * WIDTH);
    let add = bench.input("zeros", &vec![0.0; rows * WIDTH]);
    let [gamma, beta] = ["gamma", "beta"].map(|name| bench.input(name, &[1.0; WIDTH]));
    let (normalized, stats) = (bench.output("normalized", rows * WIDTH), bench.output("stats", rows * 2));
    let residual = Some(Residual { add, sum, dropout: Some(mask) });
    let args =
        LayerNorm { x, residual, gamma, beta, y: normalized, stats, rows, width: WIDTH, epsilon: 1e-5 };
    layer_norm(&mut bench.plan, args);

    let scores = bench.input("scores", &vec![0.0; 2 * rows * keys]);
    let dropped = bench.output("dropped", 2 * rows * keys);
    let attended = bench.words("mask", &vec![1; 3 * keys]);
    let (sequences, rows_per_sequence) = (3, 2 * tokens.here);
    let args = Softmax {
        scores,
        mask: attended,
        dropped: Some((dropped, mask)),
        sequences,
        rows_per_sequence,
        keys,
    };
    softmax(&mut bench.plan, args);
    let program = bench.run(device);
    let kept = |y: Tensor| read(device, &program, y).iter().map(|y| *y != 0.0).collect();
    [kept(y), kept(sum), kept(dropped)]
}

#[test]
fn shorter_sequences_keep_the_masks_of_their_tokens() {
    let Tokens { here, whole } = Tokens { here: 8, whole: 20 };
    for family in FAMILIES {
        let device = device(family);
        let all = kept(&device, Tokens { here: whole, whole });
        let short = kept(&device, Tokens { here, whole });
        // Elements of a sequence by its tokens, and those of the tokens that are left.
        let cut = |all: &[bool], width: usize| -> Vec<bool> {
            all.chunks(whole * width).flat_map(|sequence| &sequence[..here * width]).copied().collect()
        };
        assert_eq!(short[0], cut(&all[0], 6), "{family:?}: by themselves");
        assert_eq!(short[1], cut(&all[1], 6), "{family:?}: before a layer norm");
        assert_eq!(short[2], cut(&cut(&all[2], whole), 1), "{family:?}: of attention");
    }
}
