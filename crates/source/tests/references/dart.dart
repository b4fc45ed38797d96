import 'dart:async';
import 'package:shop/price.dart' as price;
export 'src/item.dart';
part 'cart.g.dart';

void main() {
  final sum = add(1, 2);
  final cart = Cart('a');
  cart.items.add(sum);
  price.Price.of(cart).print();
  new Other(1);
  const Point(1, 2);
  cart?.load();
  cart..first()..second(2);
  List<int>.filled(3, 0);
  super.dispose();
}
