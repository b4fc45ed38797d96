library(dplyr)
source("tools.R")
total <- function(cart) {
  stats::median(cart$items())
  sum(cart@price, 1)
}
