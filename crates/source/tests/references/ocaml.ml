open Printf
module L = List
include Shop.Base

let start items =
  let sum = add 1 2 in
  printf "%d\n" sum;
  let names = L.map (fun item -> double item) items in
  items |> List.filter is_open |> ignore;
  cart#increment;
  new counter 1
