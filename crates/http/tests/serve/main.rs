//! A server on loopback, asked as browsers, programs and strangers ask.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod api;
mod elsewhere;
mod fixture;
mod limits;
mod pages;
mod safety;
mod trees;
