require 'json'
require_relative "cart"
class Shop
  def total(cart)
    self.store.save(cart.items.map { |item| price(item) })
    Cart.new(JSON.parse("{}"))
    puts "done"
  end
end
