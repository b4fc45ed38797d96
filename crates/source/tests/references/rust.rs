use std::fmt;
use anyhow as error;
use std::{collections::{BTreeMap, hash_map::{self, Entry as Slot}}, io::*, path::Path as Location};
use crate::cart::Cart as Basket;
use {alpha, beta::Gamma};
use super::*;
extern crate serde as codec;

impl Cart {
    fn total(&self) -> u32 {
        let items = Vec::<u32>::with_capacity(self.store.len());
        println!("{}", hidden());
        items.iter().map(|item| price(item)).sum::<u32>() + std::mem::take(&mut items)
    }
}

#[cfg(any(test, feature = "no-call"))]
fn arguments() {
    println!("{}", name(1));
    vec![cart.items().first()?.price(2), Item::new(3), cart.sum::<u32>(4), max::<u8>(4), if free(5) { Item { price } } else { old[0] }];
    assert!(shop::check!(#[no_call(1)] self.cart.is_empty()));
}

macro_rules! add {
    ($cart:expr) => { $crate::cart::push($cart, format!("{}", $cart.next())) };
}
