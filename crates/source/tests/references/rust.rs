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
