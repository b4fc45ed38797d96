function total($prices, $tax = 0.2) {
    $result = 0;
    // each
    foreach ($prices as $price) {
        if ($price > 1) {
            $result += $price * $tax;
        } elseif ($price < 0) {
            $bad = "negative $price";
        } else {
            $result = $result - 1;
        }
    }
    for ($i = 0; $i < 10; $i++) {
        $result = $result + $i;
    }
    while ($i > 0) { $i--; }
    return strlen('x') + $result;
}
