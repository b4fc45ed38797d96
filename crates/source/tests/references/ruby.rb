require 'json'
require_relative "cart"
class Shop
  def total(cart)
    self.store.save(cart.items.map { |item| price(item) })
    Cart.new(JSON.parse("{}"))
    puts "done"
  end
end
class Shop
  attr_reader :cart
  private

  def add(item, count = default_count, *rest, note:, &block)
    name = label
    name ||= fallback
    first, (second, *others) = parts
    cart.each { |entry, (key, value)| show entry, key, value, count; shown = entry }
    shown
    "#{name} #{title} #{first} #{second} #{others}"
    [item, rest, note, block].each(&printer)
  rescue Empty => error
    log error
    raise
  else
    case result
    in [head, *tail] | { id: Integer => head, tail: } then [head, tail]
    in other then other
    end
    super
  end

  def item = add(__FILE__, first)
  alias old new
end

class Basket
  include Comparable
  extend Shop::Priced
end
