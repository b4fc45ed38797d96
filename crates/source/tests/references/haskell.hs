module Main where

import qualified Data.Map as Map
import Data.List (foldl', sort)
import Shop.Price

main :: IO ()
main = do
  let sum = add 1 2
  print (total items)
  Map.insert 1 2 cart
  mapM_ double $ filter isOpen items
  pure . sort =<< load "a"
