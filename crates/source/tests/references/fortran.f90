program main
  use cart, only: add, total
  use iso_fortran_env
  include 'common.inc'
  integer :: sum
  call clear(items)
  sum = add(1, 2)
  call cart%load()
  print *, total(sum)
end program main
