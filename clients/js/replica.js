/**
 * What is known of a graph: nodes, edges, roots. A snapshot replaces it, a delta changes it, each whole or not at all.
 */

const name = (dependent, dependency) => `${dependent} ${dependency}`;

export class Replica {
  /** By id: {id, tag, state, bytes, key}. Only to be read. */
  nodes = new Map();
  #edges = new Map();
  #roots = new Set();
  #keys = null;

  /** A list of {dependent, dependency}. */
  get edges() {
    return [...this.#edges.values()];
  }

  /** The ids of nodes that read nothing. */
  get roots() {
    return [...this.#roots].sort((one, other) => one - other);
  }

  /** The node with a key, or undefined. */
  find(key) {
    this.#keys ??= new Map([...this.nodes.values()].filter((node) => node.key !== null).map((node) => [node.key, node.id]));
    return this.nodes.get(this.#keys.get(key));
  }

  /** Become what a snapshot says. Returns what is wrong with it, and changes nothing then; null if all is well. */
  replace(snapshot) {
    const nodes = new Map(snapshot.nodes.map((node) => [node.id, node]));
    if (nodes.size !== snapshot.nodes.length) return "a node is listed twice";
    for (const { dependent, dependency } of snapshot.edges) {
      if (!nodes.has(dependent) || !nodes.has(dependency)) return "an edge leads to a node that is not listed";
    }
    if (!snapshot.roots.every((id) => nodes.has(id))) return "a root is not listed";
    this.nodes = nodes;
    this.#edges = new Map(snapshot.edges.map((edge) => [name(edge.dependent, edge.dependency), edge]));
    this.#roots = new Set(snapshot.roots);
    this.#keys = null;
    return null;
  }

  /** Why operations cannot follow on what is there; null if they can. */
  misfit(operations) {
    const changed = new Map();
    const exists = (id) => changed.get(id) ?? this.nodes.has(id);
    for (const operation of operations) {
      if (operation.kind === "node-add") {
        if (exists(operation.id)) return `node ${operation.id} is there already`;
        changed.set(operation.id, true);
      } else if (operation.kind.startsWith("edge-")) {
        if (!exists(operation.dependent) || !exists(operation.dependency)) return "an edge leads to a node that is not there";
      } else if (!exists(operation.id)) {
        return `node ${operation.id} is not there`;
      } else if (operation.kind === "node-remove") {
        changed.set(operation.id, false);
      }
    }
    return null;
  }

  /** Carry out operations that fit. */
  apply(operations) {
    for (const operation of operations) this.#carryOut(operation);
  }

  #carryOut(operation) {
    const { id } = operation;
    switch (operation.kind) {
      case "node-add": {
        const { tag, state, bytes, key } = operation;
        this.nodes.set(id, { id, tag, state, bytes, key });
        if (state === "resolved") this.#roots.add(id);
        this.#keys = null;
        break;
      }
      case "node-remove":
        this.nodes.delete(id);
        this.#roots.delete(id);
        for (const [edge, { dependent, dependency }] of this.#edges) {
          if (dependent === id || dependency === id) this.#edges.delete(edge);
        }
        this.#keys = null;
        break;
      case "edge-add": {
        const { dependent, dependency } = operation;
        this.#edges.set(name(dependent, dependency), { dependent, dependency });
        this.#roots.delete(dependent);
        break;
      }
      case "edge-remove":
        this.#edges.delete(name(operation.dependent, operation.dependency));
        break;
      case "invalidate":
        this.#roots.delete(id);
        this.nodes.set(id, { ...this.nodes.get(id), state: "dirty" });
        break;
      default:
        // A value: of a cell, which reads nothing, or of what was computed from others.
        if (operation.kind === "cell-set") this.#roots.add(id);
        else this.#roots.delete(id);
        this.nodes.set(id, { ...this.nodes.get(id), state: "resolved", bytes: operation.bytes });
    }
  }
}
