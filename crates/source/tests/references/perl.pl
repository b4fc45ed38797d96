use strict;
use List::Util qw(sum max);
use Shop::Cart;
require Shop::Item;

sub start {
    my ($items) = @_;
    my $sum = add(1, 2);
    print "sum $sum\n";
    my $cart = Shop::Cart->new(name => 'a');
    $cart->total();
    $cart->{items}->load;
    Shop::Cart::clear($cart);
    sum(1, 2);
    &other(1);
}
