/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - the sizes of the classes in gloo's header of this name, for
 * packages that come without it (Debian's: other headers of theirs include it)
 *
 * Found only if there is no such file among the system's headers. The objects
 * are made and used inside libgloo alone; here they only take up room in the
 * classes that hold them, so nothing but their members is declared.
 */
#ifndef DT_COMM_COMPAT_GLOO_MEMORY_H
#define DT_COMM_COMPAT_GLOO_MEMORY_H

#include <memory>

namespace gloo
{

template <typename T> class NonOwningPtr;

template <typename T> class ShareableNonOwningPtr
{
  public:
    explicit ShareableNonOwningPtr(T *object);
    ~ShareableNonOwningPtr();

  private:
    std::shared_ptr<T> pointer;
};

template <typename T> class WeakNonOwningPtr
{
  public:
    explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T> &from);

  private:
    std::weak_ptr<T> pointer;
};

} // namespace gloo

#endif /* DT_COMM_COMPAT_GLOO_MEMORY_H */
