{ pkgs ? import <nixpkgs> { } }:

let
  helpers = import ./helpers.nix;
  name = helpers.hyphenate "a" "b";
  names = map toString [ 1 2 ];
  call = f: f 1;
in
pkgs.mkShell {
  inputs = builtins.filter (p: lib.isDerivation p) (callPackage ./a.nix { });
}
