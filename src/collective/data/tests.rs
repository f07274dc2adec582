//! What is said in the module's text, tried.

mod numbers;

use half::{bf16, f16};
use proptest::{prelude::*, sample::select};

use self::numbers::{Element, F8, with_type};
use super::{check::distance, recipe::STAIRS, *};

const RANKS: [u64; 9] = [1, 2, 3, 5, 8, 9, 64, 1000, MAX_RANKS];

fn made(key: &DataKey, content: Content, len: u64) -> Vec<u8> {
    let mut out = vec![0; (len * key.dtype.size()) as usize];
    write(key, &content, &mut out);
    out
}

fn elements<T: Element>(key: &DataKey, content: Content, len: u64) -> Vec<T> {
    made(key, content, len)
        .chunks_exact(size_of::<T>())
        .map(T::read)
        .collect()
}

/// Input `index` of all ranks, as it goes into the addition.
fn inputs<T: Element>(key: &DataKey, op: RedOp, index: u64) -> Vec<T> {
    let raw = elements::<T>(
        key,
        Content::Input {
            rank: 0,
            chunk: 1,
            first: index,
        },
        key.ranks,
    );
    match op {
        RedOp::Avg => raw.into_iter().map(|x| x.before_avg(key.ranks)).collect(),
        RedOp::MulSum => raw
            .into_iter()
            .zip(0..)
            .map(|(x, rank)| x.times(T::read(&scalar(key.dtype, rank)[..size_of::<T>()])))
            .collect(),
        _ => raw,
    }
}

fn reduced<T: Element>(key: &DataKey, index: u64) -> T {
    elements(key, Content::Reduced { first: index }, 1)[0]
}

fn finish<T: Element>(op: RedOp, ranks: u64, total: T) -> T {
    if op == RedOp::Avg {
        total.after_avg(ranks)
    } else {
        total
    }
}

fn fold<T: Element>(op: RedOp, values: impl IntoIterator<Item = T>) -> Option<T> {
    values.into_iter().reduce(|a, b| a.combine(op, b))
}

/// A small generator for orders: proptest's own would record each of millions of choices.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        ((u128::from(self.0) * bound as u128) >> 64) as usize
    }
}

/// Combines two random partial results until one is left: any order and any association can come
/// out.
fn random_tree<T: Element>(op: RedOp, mut values: Vec<T>, dice: &mut Dice) -> T {
    while values.len() > 1 {
        let a = values.swap_remove(dice.below(values.len()));
        let at = dice.below(values.len());
        values[at] = values[at].combine(op, a);
    }
    values[0]
}

fn keys() -> impl Iterator<Item = (DataKey, RedOp)> {
    let keys = |(dtype, op): (DType, RedOp)| {
        RANKS.map(|ranks| {
            (
                DataKey {
                    dtype,
                    redop: Some(op),
                    ranks,
                    seed: ranks ^ 0x77,
                },
                op,
            )
        })
    };
    let all = DType::ALL
        .into_iter()
        .flat_map(|dtype| RedOp::ALL.map(|op| (dtype, op)))
        .flat_map(keys);
    all.filter(|(key, op)| key.ranks <= most_ranks(key.dtype, Some(*op)))
}

fn any_order_gives_reduced<T: Element>(key: &DataKey, op: RedOp) {
    let mut dice = Dice(key.ranks);
    for index in [
        0,
        1,
        2,
        3,
        4094,
        4097,
        u64::from(u32::MAX) - 1,
        0x12_3456_789a,
    ] {
        let mut values = inputs::<T>(key, op, index);
        let want = reduced::<T>(key, index).bits();
        for _ in 0..2 {
            let got = finish(op, key.ranks, random_tree(op, values.clone(), &mut dice));
            assert_eq!(got.bits(), want, "{key:?} at {index}: {got:?}");
        }
        // All that is positive first: the greatest partial sum there is.
        values.sort_by(|a, b| b.partial_cmp(a).expect("no NaN"));
        let got = finish(op, key.ranks, fold(op, values).expect("a rank"));
        assert_eq!(got.bits(), want, "{key:?} at {index}, sorted: {got:?}");
    }
}

#[test]
fn every_order_and_association_gives_the_reduced_value_bit_for_bit() {
    for (key, op) in keys() {
        with_type!(key.dtype, any_order_gives_reduced(&key, op));
    }
}

/// Inputs that are not negative and add up to the result without wrapping: no subset's sum
/// overflows either.
#[test]
fn no_sum_of_8_bit_integers_overflows() {
    for ranks in (1..=40).chain([64, 1000, 4095, MAX_RANKS]) {
        let key = |dtype| DataKey {
            dtype,
            redop: Some(RedOp::Sum),
            ranks,
            seed: ranks,
        };
        let indices = if ranks > 40 { 0..50 } else { 0..1000 };
        for index in indices.chain([16_383, 16_384, (1 << 34) - 1, 1 << 34]) {
            let values = inputs::<i8>(&key(DType::Int8), RedOp::Sum, index);
            assert!(
                values.iter().all(|value| *value >= 0),
                "{ranks} ranks at {index}: {values:?}"
            );
            let total: i64 = values.iter().map(|value| i64::from(*value)).sum();
            assert!(
                total <= i8::MAX.into(),
                "{ranks} ranks at {index}: {values:?}"
            );
            assert_eq!(
                total,
                i64::from(reduced::<i8>(&key(DType::Int8), index)),
                "{ranks} ranks at {index}"
            );
            let unsigned = inputs::<u8>(&key(DType::Uint8), RedOp::Sum, index);
            assert!(
                values.into_iter().map(i8::cast_unsigned).eq(unsigned),
                "{ranks} ranks at {index}"
            );
            let active = inputs::<i8>(&key(DType::Int8), RedOp::Sum, index)
                .into_iter()
                .filter(|x| *x > 0)
                .count();
            assert!(
                active as u64 + 1 >= ranks.min(STAIRS),
                "{ranks} ranks at {index}: {active} matter"
            );
        }
    }
}

/// A fused multiplication and addition, which compilers may choose, stays within the tolerance.
#[test]
fn a_fused_average_is_within_two_ulp() {
    for ranks in (3..MAX_RANKS).filter(|n| !n.is_power_of_two()) {
        let key = DataKey {
            dtype: DType::Float,
            redop: Some(RedOp::Avg),
            ranks,
            seed: 5,
        };
        let share = (1.0 / ranks as f64) as f32;
        let raw = elements::<f32>(
            &key,
            Content::Input {
                rank: 0,
                chunk: 1,
                first: ranks,
            },
            ranks,
        );
        let got = raw
            .into_iter()
            .fold(0.0, |sum: f32, x| x.mul_add(share, sum));
        assert_eq!(
            count_wrong(&key, &Content::Reduced { first: ranks }, &got.to_le_bytes()),
            0,
            "{ranks} ranks"
        );
    }
}

/// A chain that rounds once, at its end, stays within the tolerance of floats of 8 bits too, whose
/// units are large.
#[test]
fn an_average_that_is_rounded_once_is_within_two_ulp() {
    fn check<const M: u32>(dtype: DType) {
        for ranks in (3..=most_ranks(dtype, Some(RedOp::Avg)).min(MAX_RANKS))
            .filter(|n| !n.is_power_of_two())
        {
            let key = DataKey {
                dtype,
                redop: Some(RedOp::Avg),
                ranks,
                seed: 3,
            };
            let share = F8::<M>::nearest((1.0 / ranks as f64) as f32).value();
            let raw = elements::<F8<M>>(
                &key,
                Content::Input {
                    rank: 0,
                    chunk: 1,
                    first: ranks,
                },
                ranks,
            );
            let got = F8::<M>::nearest(raw.into_iter().map(|x| x.value() * share).sum());
            assert_eq!(
                count_wrong(&key, &Content::Reduced { first: ranks }, &[got.0]),
                0,
                "{ranks} ranks: {got:?}"
            );
        }
    }
    check::<3>(DType::F8e4m3);
    check::<2>(DType::F8e5m2);
}

/// A library that forgets the scalars, or multiplies by those of other ranks, is found out.
#[test]
fn a_mulsum_depends_on_its_scalars() {
    fn check<T: Element>(key: &DataKey) {
        let wrong = |index| {
            let raw = elements::<T>(
                key,
                Content::Input {
                    rank: 0,
                    chunk: 1,
                    first: index,
                },
                key.ranks,
            );
            fold(RedOp::MulSum, raw).expect("a rank").bits() != reduced::<T>(key, index).bits()
        };
        assert!((0..300).any(wrong), "{key:?}");
    }
    for (key, _) in keys().filter(|(key, op)| *op == RedOp::MulSum && key.ranks > 1) {
        with_type!(key.dtype, check(&key));
    }
}

#[test]
fn averages_of_floats_hold_for_every_number_of_ranks() {
    for ranks in 1..=MAX_RANKS {
        let has = |dtype: &DType| dtype.is_float() && ranks <= most_ranks(*dtype, Some(RedOp::Avg));
        for dtype in DType::ALL.into_iter().filter(has) {
            let key = DataKey {
                dtype,
                redop: Some(RedOp::Avg),
                ranks,
                seed: ranks,
            };
            let most = if cfg!(debug_assertions) {
                40
            } else {
                MAX_RANKS
            };
            if ranks <= most || ranks % 97 == 0 {
                with_type!(dtype, average_holds(&key));
            }
        }
    }
}

fn average_holds<T: Element>(key: &DataKey) {
    let got = fold(RedOp::Avg, inputs::<T>(key, RedOp::Avg, 11)).expect("a rank");
    assert_eq!(got.bits(), reduced::<T>(key, 11).bits(), "{key:?}");
}

/// Does the average of 8-bit integers say anything at all? Above that many ranks it is 0, whatever
/// the data.
fn mute(key: &DataKey, op: RedOp) -> bool {
    op == RedOp::Avg && key.dtype.size() == 1 && key.ranks > 64
}

fn faults_show<T: Element>(key: &DataKey, op: RedOp) {
    let mut dice = Dice(key.ranks);
    for _ in 0..8 {
        let rank = dice.below(key.ranks as usize);
        let other = (rank + 1 + dice.below(key.ranks.max(2) as usize - 1)) % key.ranks as usize;
        let (mut lost, mut doubled, mut exchanged) = (0, 0, 0);
        for index in 0..300 {
            let mut values = inputs::<T>(key, op, index);
            let wrong = |total: T| {
                u64::from(finish(op, key.ranks, total).bits() != reduced::<T>(key, index).bits())
            };
            let all = fold(op, values.clone()).expect("a rank");
            doubled += wrong(all.combine(op, values[rank]));
            values[rank] = values[other];
            exchanged += wrong(fold(op, values.clone()).expect("a rank"));
            values.swap_remove(rank);
            lost += fold(op, values).map_or(1, wrong);
        }
        assert!(lost > 0, "{key:?}: losing rank {rank} does not show");
        assert!(
            exchanged > 0 || key.ranks == 1,
            "{key:?}: rank {other} for rank {rank} does not show"
        );
        assert!(
            doubled > 0 || matches!(op, RedOp::Max | RedOp::Min),
            "{key:?}: doubling rank {rank} does not show"
        );
    }
}

#[test]
fn a_lost_doubled_or_exchanged_rank_shows_within_300_elements() {
    for (key, op) in keys().filter(|(key, op)| key.ranks <= 64 && !mute(key, *op)) {
        with_type!(key.dtype, faults_show(&key, op));
    }
}

fn every_rank_matters<T: Element>(key: &DataKey, op: RedOp) {
    // Of max and min only the winner matters: that is one rank an element, in any data. Of an avg
    // without an exact 1/n it is two, and of a sum of 8-bit integers a few.
    let winner = matches!(op, RedOp::Max | RedOp::Min);
    let small = matches!(op, RedOp::Sum | RedOp::MulSum) && key.dtype.size() == 1
        || key.dtype.is_float8() && matches!(op, RedOp::Avg | RedOp::Prod);
    let rare = winner
        || small
        || op == RedOp::Avg && key.dtype.name() != "int8" && !key.ranks.is_power_of_two();
    let len = if rare { 4 * key.ranks } else { 400 };
    let results = elements::<T>(key, Content::Reduced { first: 0 }, len);
    for rank in [
        0,
        1,
        key.ranks / 3,
        key.ranks / 2,
        key.ranks - 2,
        key.ranks - 1,
    ] {
        let values = elements::<T>(
            key,
            Content::Input {
                rank,
                chunk: len,
                first: 0,
            },
            len,
        );
        let shows = |(result, value): (&T, T)| match op {
            RedOp::Max | RedOp::Min => value.bits() == result.bits(),
            _ => result.combine(op, value).bits() != result.bits(),
        };
        assert!(
            results.iter().zip(values).any(shows),
            "{key:?}: rank {rank} never matters"
        );
    }
}

#[test]
fn every_one_of_thousands_of_ranks_matters() {
    for (key, op) in keys().filter(|(key, _)| key.ranks > 64) {
        with_type!(key.dtype, every_rank_matters(&key, op));
    }
}

#[test]
fn a_short_message_depends_on_as_many_ranks_as_it_can() {
    for dtype in DType::ALL {
        let key = DataKey {
            dtype,
            redop: Some(RedOp::Max),
            ranks: 16,
            seed: 1,
        };
        let winners = |rank: &u64| {
            let own = made(
                &key,
                Content::Input {
                    rank: *rank,
                    chunk: 16,
                    first: 0,
                },
                16,
            );
            let size = dtype.size() as usize;
            let best = made(&key, Content::Reduced { first: 0 }, 16);
            own.chunks(size).zip(best.chunks(size)).any(|(a, b)| a == b)
        };
        assert_eq!((0..16).filter(winners).count(), 16, "{dtype:?}");
    }
}

/// Marks far apart in index, slot or seed have nothing in common: about one bit in two differs.
#[test]
fn streams_look_random() {
    let recipe = |seed| {
        let key = DataKey {
            dtype: DType::Uint32,
            redop: None,
            ranks: 2,
            seed,
        };
        Recipe::new(
            &key,
            &Content::Input {
                rank: 0,
                chunk: 1,
                first: 0,
            },
        )
    };
    let apart = |f: &dyn Fn(u64) -> (u32, u32)| {
        (0..4000)
            .map(f)
            .map(|(a, b)| (a ^ b).count_ones())
            .sum::<u32>() as f64
            / (4000.0 * 32.0)
    };
    let (a, b) = (recipe(1), recipe(2));
    let pairs: [&dyn Fn(u64) -> (u32, u32); 4] = [
        &|i| (a.word(i, 3), a.word(i, 4)),
        &|i| (a.word(i, 3), a.word(i + 1, 3)),
        &|i| (a.word(i, 3), b.word(i, 3)),
        &|i| (a.word(i, 3), a.word(i + (1 << 32), 3)),
    ];
    for (nth, pair) in pairs.into_iter().enumerate() {
        let share = apart(pair);
        assert!((share - 0.5).abs() < 0.01, "pair {nth}: {share}");
    }
}

fn any_key() -> impl Strategy<Value = DataKey> {
    let op = prop_oneof![Just(None), select(RedOp::ALL.to_vec()).prop_map(Some)];
    (select(DType::ALL.to_vec()), op, 1..=MAX_RANKS, any::<u64>()).prop_map(
        |(dtype, redop, ranks, seed)| DataKey {
            dtype,
            redop,
            ranks,
            seed,
        },
    )
}

fn any_content() -> impl Strategy<Value = Content> {
    let first = prop_oneof![0..9000u64, 0..1u64 << 40];
    prop_oneof![
        (0..MAX_RANKS, 1..50u64, first.clone()).prop_map(|(rank, chunk, first)| Content::Input {
            rank,
            chunk,
            first
        }),
        first.prop_map(|first| Content::Reduced { first }),
        Just(Content::Sentinel),
    ]
}

/// Keeps `content` within the ranks of `key`, `len` elements on.
fn within(key: &mut DataKey, content: &Content, len: u64) {
    if let Content::Input { rank, chunk, .. } = content {
        key.ranks = key.ranks.max(rank + len / chunk + 1);
    }
}

#[test]
fn large_buffers_are_filled_and_checked_as_one_while_it_is_noted() {
    let key = DataKey {
        dtype: DType::Int8,
        redop: Some(RedOp::Sum),
        ranks: 3,
        seed: 5,
    };
    let content = Content::Reduced { first: 7 };
    let noted = std::cell::Cell::new(0);
    let note = || noted.set(noted.get() + 1);
    let mut got = vec![0; (10 << 20) + 5];
    write_noting(&key, &content, &mut got, &note);
    assert_eq!(noted.take(), 3);
    // The last elements of one piece and the first ones of the next.
    for at in [(4 << 20) - 3, (8 << 20) - 3, (10 << 20) - 1] {
        let first = 7 + at as u64;
        let alone = made(&key, Content::Reduced { first }, 6);
        assert_eq!(got[at..at + 6], alone);
    }
    assert_eq!(count_wrong_noting(&key, &content, &got, &note), 0);
    assert_eq!(noted.take(), 3);
    got[9 << 20] ^= 1;
    assert_eq!(count_wrong_noting(&key, &content, &got, &note), 1);
}

proptest! {
    #[test]
    fn a_stretch_is_its_elements_one_by_one(mut key in any_key(), content in any_content(), len in 1..200u64) {
        within(&mut key, &content, len);
        let size = key.dtype.size() as usize;
        for (k, element) in (0..).zip(made(&key, content, len).chunks(size)) {
            let alone = match content {
                Content::Input { rank, chunk, first } => {
                    Content::Input { rank: rank + k / chunk, chunk: 1, first: first + k % chunk }
                }
                Content::Reduced { first } => Content::Reduced { first: first + k },
                Content::Sentinel => content,
            };
            prop_assert_eq!(element, made(&key, alone, 1), "element {}", k);
        }
    }

    #[test]
    fn each_wrong_element_is_counted_once(
        mut key in any_key(), content in any_content(), len in 1..6000u64,
        hits in prop::collection::btree_set(0..6000usize, 0..9),
    ) {
        within(&mut key, &content, len);
        let mut got = made(&key, content, len);
        prop_assert_eq!(count_wrong(&key, &content, &got), 0);
        let size = key.dtype.size() as usize;
        let hits: Vec<usize> = hits.into_iter().filter(|at| *at < len as usize).collect();
        for at in &hits {
            got[at * size + size - 1] ^= 0x80;
        }
        prop_assert_eq!(count_wrong(&key, &content, &got), hits.len() as u64);
    }

    #[test]
    fn a_planted_fault_is_out_of_tolerance(mut key in any_key(), content in any_content(), len in 1..60u64) {
        within(&mut key, &content, len);
        let mut got = made(&key, content, len);
        for element in got.chunks_mut(key.dtype.size() as usize) {
            element[0] ^= fault_in(&key, &content);
        }
        prop_assert_eq!(count_wrong(&key, &content, &got), len);
    }

    #[test]
    fn floats_hold_no_sentinel(mut key in any_key(), first in 0..1u64 << 40, op in select(RedOp::ALL.to_vec())) {
        key.redop = Some(op);
        prop_assume!(key.dtype.is_float());
        for content in [Content::Input { rank: key.ranks - 1, chunk: 99, first }, Content::Reduced { first }] {
            prop_assert_eq!(count_wrong(&key, &Content::Sentinel, &made(&key, content, 99)), 99);
            prop_assert_eq!(count_wrong(&key, &content, &made(&key, Content::Sentinel, 99)), 99);
        }
    }
}

#[test]
fn only_an_inexact_average_has_a_tolerance_and_it_is_two_ulp() {
    for (key, op) in keys() {
        let content = Content::Reduced { first: 8 };
        let inexact = op == RedOp::Avg && !key.ranks.is_power_of_two() && key.dtype.is_float();
        for off in [1, 2, 3] {
            let mut got = made(&key, content, 1);
            let mut wide = [0; 8];
            wide[..got.len()].copy_from_slice(&got);
            let moved = (u64::from_le_bytes(wide) ^ 4).wrapping_add(off) ^ 4;
            let size = got.len();
            got.copy_from_slice(&moved.to_le_bytes()[..size]);
            let distance = distance(&got, &made(&key, content, 1));
            let wrong = if inexact { distance > 2 } else { distance > 0 };
            assert_eq!(
                count_wrong(&key, &content, &got),
                u64::from(wrong),
                "{key:?} off by {distance}"
            );
        }
    }
}

#[test]
fn zeros_of_either_sign_are_no_distance_apart() {
    assert_eq!(distance(&0.0f32.to_le_bytes(), &(-0.0f32).to_le_bytes()), 0);
    assert_eq!(
        distance(
            &f32::from_bits(1).to_le_bytes(),
            &(-f32::from_bits(1)).to_le_bytes()
        ),
        2
    );
    assert_eq!(
        distance(
            &1.0f64.to_le_bytes(),
            &(1.0f64 + f64::EPSILON).to_le_bytes()
        ),
        1
    );
}
