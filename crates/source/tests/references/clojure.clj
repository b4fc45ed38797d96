(ns shop.cart
  (:require [clojure.string :as str]
            [shop.price :refer [total tax]]
            shop.plain)
  (:import (java.util Date List)))

(defn start [items]
  (let [sum (total items)]
    (str/join ", " (map #(add % 1) items))
    (println sum)
    (.close stream)
    (Date. 1)
    (-> items first :price)))

(require '[shop.late :as late])
