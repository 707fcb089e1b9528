// Search on pages that are opened from a folder: browsers start no worker there, so its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.scope = new Promise((done, fail) => {
        this.frame.onload = () => {
          const scope = this.frame.contentWindow;
          scope.importScripts = (...addresses) =>
            addresses.reduce((before, each) => before.then(() => loaded(scope, each)), Promise.resolve());
          scope.postMessage = (data) => this.answer(data);
          loaded(scope, address).then(() => done(scope), fail);
        };
      });
      document.body.append(this.frame);
    }

    postMessage(data) {
      this.scope.then((scope) => scope.dispatchEvent(new scope.MessageEvent("message", { data })));
    }

    answer(data) {
      const event = new MessageEvent("message", { data });
      this.onmessage?.(event);
      this.dispatchEvent(event);
    }

    terminate() {
      this.frame.remove();
    }
  };

  const loaded = (scope, address) =>
    new Promise((done, fail) => {
      const script = scope.document.createElement("script");
      Object.assign(script, { src: address, onload: done, onerror: fail });
      scope.document.head.append(script);
    });
}
