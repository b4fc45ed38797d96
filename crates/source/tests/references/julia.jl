using LinearAlgebra
using Shop: add, total
import Base.show
include("cart.jl")

function start(items)
    sum = add(1, 2)
    println("sum $sum")
    names = map(item -> double(item), items)
    Shop.total(items)
    items .|> half
    @assert isopen(items)
    f.(items)
end
