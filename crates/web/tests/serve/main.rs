//! A server on loopback, asked as browsers, programs and strangers ask.

mod api;
mod fixture;
mod limits;
mod pages;
mod safety;
