func Total(prices []float64, tax float64) (float64, error) {
	var result, other float64 = 0, 1
	// each
	n := 0
	for i := 0; i < len(prices); i++ {
		if prices[i] > 1 {
			result = result + prices[i]*tax
		} else if n > 2 {
			n++
		} else {
			fmt.Println("small", prices[i])
		}
	}
	for _, price := range prices {
		result += price
	}
	a, b = b, a
	return result, nil
}
