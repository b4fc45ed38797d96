<?php
use App\Cart;
use App\Store as Shop, Other\Thing;
use App\{Item, Price as Cost};
use function App\sum;
require_once 'lib.php';
function total($cart) {
    $item = new Item(strlen('a'));
    $cart->store->save($item);
    $cart?->close();
    return \App\max(Shop::find(1), new \App\Cost());
}

class Basket {
    use Priced, Named;
}
