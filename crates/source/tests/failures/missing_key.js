const api = {
  save: async function (item) {
    return item;
  },
  nested: {
  : () => {
      return null;
    },
  },
  'quoted-name': function () {},
};

ex'port const Button = forwardRef(function (props, ref) {
  return props;
});
