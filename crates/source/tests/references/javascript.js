import cart, { add, remove as drop } from './cart';
import * as tools from "tools";
import './style.css';
export { total } from './total';
export * from './all';
const fs = require('fs');
const { join, sep: separator } = require('path');
class Shop extends Base {
  constructor() { super(); }
  async open() {
    const page = await import('./page.js');
    this.client.session.get(new Item(join('a', 'b')));
    return page
      .render()
      .then(() => new tools.View());
  }
}
