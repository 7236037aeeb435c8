// Keep every server of this process on loopback, whatever host it asks for, and open no browser.
const net = require('node:net');
const listen = net.Server.prototype.listen;
const LOOPBACK = '127.0.0.1';

net.Server.prototype.listen = function (first, ...rest) {
  if (first !== null && typeof first === 'object') {
    return listen.call(this, first.path ? first : { ...first, host: LOOPBACK }, ...rest);
  }
  const port = Number(first);
  if (!Number.isInteger(port)) return listen.call(this, first, ...rest);
  return listen.call(this, port, LOOPBACK, ...rest.filter((part) => typeof part !== 'string'));
};
