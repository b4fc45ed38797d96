# Sum
def total(prices, tax: 0.2, name: nil)
  result, count = 0, 1
  for price in prices do
    if price > 1
      result += price * tax
    elsif price < 0
      count = count - 1
    else
      puts "small #{price}"
    end
  end
  count += 1 while count < 10
  until count < 3
    count -= 1
  end
  unless count
    result = nil
  end
  case count
  when 1 then result = 1
  else result = 2
  end
  prices.each { |p| puts p }
  result
end
